#!/usr/bin/env python3
"""A worker that was taken over, of a session without a limit of memory, says that it holds all of the GPU: vGPUs with a limit are made all
the same.

usage: memory_reports_test.py BUILD_DIRECTORY
"""

import os
import struct
import subprocess
import threading
import time
import unittest

from product import TESSERA, end_with_test, environment, program, wait_for
from vgpu_control_case import VgpuControlCase

MIB = 1 << 20
MEMORY_MIB, HELD_MIB = 4096, 8
# server/gate/report_page.h: what stands before the first row, and before the memory in it.
HELD_AT = 16 + 10 * 8
# Of the second look at the memory of its process.
SOON_S = 20


class Liar:
    """Writes again and again into the report page of a worker that it holds so much of GPU 0, until end()."""

    def __init__(self, worker, held_bytes):
        with open(f"/proc/{worker}/maps") as maps:
            self.page = next(int(line.split("-")[0], 16) for line in maps if "memfd:tessera-report" in line)
        self.memory = os.open(f"/proc/{worker}/mem", os.O_RDWR)
        self.told = struct.unpack("<Q", os.pread(self.memory, 8, self.page + HELD_AT))[0]
        self.says, self.ends = struct.pack("<Q", held_bytes), threading.Event()
        self.say()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def say(self):
        os.pwrite(self.memory, self.says, self.page + HELD_AT)

    def work(self):
        while not self.ends.wait(0.05):
            self.say()

    def end(self):
        self.ends.set()
        self.thread.join()
        os.close(self.memory)


@unittest.skipUnless(os.geteuid() == 0, "needs root, to write into another process")
class MemoryReports(VgpuControlCase):
    def lie(self, *options):
        """A server, and a session there without a vGPU of its own that says that it holds all."""
        self.serve("--default", "shared", *options, memory_mib=MEMORY_MIB)
        words = [TESSERA, "run", "-q", "--server", self.server.url, "--", program("memory_limit"), "hold", str(HELD_MIB)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment())
        end_with_test(process)
        self.addCleanup(lambda: process.communicate("\n", timeout=60))
        self.assertEqual(process.stdout.readline(), "held\n")
        worker, = self.server.workers()
        liar = Liar(worker, MEMORY_MIB * MIB)
        self.addCleanup(liar.end)
        self.assertTrue(HELD_MIB * MIB <= liar.told < MEMORY_MIB * MIB, liar.told)  # it is the right place in the page
        return process

    def make(self):
        words = [TESSERA, "vgpu", "create", "a", "--request", "0.1", "--memory", "1GiB", "--server", self.server.url]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())

    def test_what_it_says_counts_where_nobody_looks(self):
        """So the other test does not pass for another reason."""
        self.lie("--audit", "off")
        time.sleep(3)
        made = self.make()
        self.assertEqual(made.returncode, 79, made.stdout)
        self.assertIn("memory", made.stderr)

    def test_what_it_says_is_not_believed(self):
        session = self.lie()
        wait_for(lambda: self.make().returncode == 0, SOON_S, "a vGPU with a limit")
        for _ in range(5):  # it says so all the time
            time.sleep(1)
            self.vgpu("resize", "a", "--memory", "3GiB")
            self.vgpu("resize", "a", "--memory", "1GiB")
        self.assertIsNone(session.poll())


if __name__ == "__main__":
    unittest.main(verbosity=2)
