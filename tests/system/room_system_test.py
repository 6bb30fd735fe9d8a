#!/usr/bin/env python3
"""What waits for sessions gives its memory back before a program is told that there is none.

usage: room_system_test.py BUILD_DIRECTORY
"""

import os
import signal
import subprocess
import sys
import time
import unittest

from product import TESSERA, Server, environment, state, wait_for

# Allocates 3 GiB twice on a device of 4 GiB; says what each call returned and how many milliseconds it took.
PROGRAM = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
for attempt in range(3):
    begin = time.monotonic()
    result = cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(3 << 30))
    print(result, int((time.monotonic() - begin) * 1000), flush=True)
"""
SAID = "a session needs the memory"


class Room(unittest.TestCase):
    def setUp(self):
        self.server = Server("--warm-workers", "3", "--sandbox", "off")
        self.addCleanup(self.server.stop)
        wait_for(lambda: len(self.server.workers()) == 3, 20, "workers that wait")

    def start(self):
        return subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--", sys.executable, "-c", PROGRAM],
                                stdout=subprocess.PIPE, text=True, env=environment())

    def test_those_that_wait_end_and_the_program_is_told_then(self):
        program = self.start()
        self.assertEqual(program.stdout.readline().split()[0], "0")
        self.assertEqual(program.stdout.readline().split()[0], "2")
        wait_for(lambda: len(self.server.workers()) <= 1, 10, "the end of those that wait")
        self.assertEqual(self.server.words().count(SAID), 1)
        self.assertEqual(program.wait(20), 0)
        program.stdout.close()
        time.sleep(2)  # longer than the pause after a session's start
        self.assertEqual(self.server.workers(), [], "none is started for a while")

    def test_one_that_does_not_end_is_waited_for_once(self):
        stopped = self.server.workers()[-1]
        os.kill(stopped, signal.SIGSTOP)
        wait_for(lambda: state(stopped) in "TZ", 10, "the stop of a process")
        program = self.start()
        rows = [tuple(map(int, program.stdout.readline().split())) for _ in range(3)]
        self.assertEqual([result for result, _ in rows], [0, 2, 2])
        self.assertGreaterEqual(rows[1][1], 4900)  # Supervisor::kRoomWaitNs
        self.assertLess(rows[2][1], 4900)
        os.kill(stopped, signal.SIGCONT)
        self.assertEqual(program.wait(20), 0)
        program.stdout.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
