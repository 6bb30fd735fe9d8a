#!/usr/bin/env python3
"""What a program does that wants more of the GPU's time than its vGPU's limit, it gets no more. Each way of tests/system/programs/cheat
beside a tenant that always wants the GPU; what they got is read in the emulated device's page.

usage: cheats_test.py BUILD_DIRECTORY
"""

import subprocess
import time
import unittest

from product import TESSERA, DevicePage, end_with_test, environment, program, wait_for
from vgpu_test import VgpuTest, vgpu

LIMIT = 0.1
SECONDS = 6
# Of what it may have beyond its limit: three points over half a minute, and what a bucket and a kernel hold in so short a time.
MORE = 0.03 + 0.06 / SECONDS


class Cheats(VgpuTest):
    def cheat(self, name, way):
        before = self.server.workers()
        words = [TESSERA, "run", "--server", self.server.url, "--vgpu", name, "--", program("cheat"), way]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(process)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "begins\n")
        worker, = set(self.server.workers()) - set(before)
        wait_for(lambda: DevicePage(self.server).busy_ns(worker) > 0, 30, "a kernel on the device")
        return process, worker

    def check(self, *ways):
        """Three at most: of more each would get little without any limit."""
        names = [f"cheat{number}" for number in range(len(ways))]
        self.serve(vgpu("tenant", 0.5), *(vgpu(name, LIMIT, LIMIT) for name in names))
        self.tenant("tenant")
        cheats = [self.cheat(name, way) for name, way in zip(names, ways)]
        page = DevicePage(self.server)
        begin, before = time.monotonic(), [page.busy_ns(worker) for _, worker in cheats]
        time.sleep(SECONDS)
        self.assertEqual([process.poll() for process, _ in cheats], [None] * len(cheats), ways)
        got = [page.busy_ns(worker) - start for (_, worker), start in zip(cheats, before)]
        passed = 1e9 * (time.monotonic() - begin)
        for way, ns in zip(ways, got):
            with self.subTest(way):
                self.assertGreater(ns, 0)
                self.assertLess(ns / passed, LIMIT + MORE)

    def test_streams_that_capture(self):
        self.check("capture", "legacy", "fork")

    def test_streams_that_are_destroyed(self):
        self.check("destroyed", "destroy", "kinds")

    def test_work_that_is_not_known(self):
        self.check("streams", "value", "stands")

    def test_work_that_was_taken_for_shorter_is_told(self):
        """One token lets in as much of it as the driver takes."""
        self.serve(vgpu("tenant", 0.5), vgpu("cheat", LIMIT, LIMIT))
        self.tenant("tenant")
        process, _ = self.cheat("cheat", "learned")
        wait_for(lambda: "vGPU cheat had GPU 0 for" in self.server.words(), 40, "a warning")
        self.assertIsNone(process.poll())
        self.assertNotIn("vGPU tenant had", self.server.words())


if __name__ == "__main__":
    unittest.main(verbosity=2)
