#!/usr/bin/env python3
"""What a program has freed is there at its next look, and at those of its neighbours; and what waits for programs counts as free.

usage: memory_back_test.py BUILD_DIRECTORY
"""

import os
import signal
import subprocess
import sys
import time
import unittest

from product import TESSERA, Server, environment, state, wait_for

MIB = 1 << 20
CONTEXT_MIB = 505
KEPT_MIB = 64 + 2  # DeviceChunks::kCachedBytesMax and an empty slab

# Does what each line says, and prints a number.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
blocks = []
def look():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value >> 20
def take(mib):
    block = ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(mib * 1048576)))
    if result == 0: blocks.append(block)
    return result
def free():
    results = [cuda.cuMemFree_v2(block) for block in blocks]
    blocks.clear()
    return max(results)
def reset():
    blocks.clear()
    result = cuda.cuDevicePrimaryCtxReset_v2(0)
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
    return result
for line in sys.stdin:
    print(eval(line), flush=True)
"""


class Program:
    def __init__(self, test, url):
        self.process = subprocess.Popen([TESSERA, "run", "-q", "--server", url, "--", sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment())
        test.addCleanup(self.end)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.wait(20)
            self.process.stdout.close()


class MemoryBack(unittest.TestCase):
    def serve(self, *options):
        server = Server(*options, env=environment(TESSERA_EMULATOR_CONTEXT_MIB=str(CONTEXT_MIB)))
        self.addCleanup(server.stop)
        return server

    def first_looks(self, one, other):
        """With the contexts of both."""
        one.ask("look()")
        other_sees = other.ask("look()")
        return one.ask("look()"), other_sees

    def test_what_waits_for_programs_counts_as_free(self):
        server = self.serve("--warm-workers", "2", "--sandbox", "off")
        program = Program(self, server.url)
        before = program.ask("look()")
        wait_for(lambda: len(server.workers()) == 3, 20, "workers that wait")
        # At any moment of their beginning.
        for _ in range(100):
            self.assertEqual(program.ask("look()"), before)
            time.sleep(0.03)
        # All of it can be had.
        for _ in range(before // 256):
            self.assertEqual(program.ask("take(256)"), 0)
        self.assertEqual(program.ask("take(256)"), 2)
        self.assertEqual(program.ask("free()"), 0)
        self.assertEqual(program.ask("look()"), before)

    def test_one_that_does_not_get_ready_is_awaited_once(self):
        server = self.serve("--warm-workers", "1", "--sandbox", "off")
        program = Program(self, server.url)
        before = program.ask("look()")
        wait_for(lambda: len(server.workers()) == 2, 20, "a worker that waits")
        stopped = server.workers()[-1]
        os.kill(stopped, signal.SIGSTOP)
        wait_for(lambda: state(stopped) in "TZ", 10, "the stop of a process")
        # It is at whatever point: some of its memory may be missing.
        self.assertGreaterEqual(program.ask("look()"), before - CONTEXT_MIB)
        os.kill(stopped, signal.SIGCONT)
        wait_for(lambda: program.ask("look()") == before, 20, "the right number")

    def test_neighbours_see_what_is_freed(self):
        server = self.serve("--warm-workers", "0", "--sandbox", "off")
        one, other = Program(self, server.url), Program(self, server.url)
        seen = self.first_looks(one, other)
        for blocks, mib in ((8, 100), (80, 10), (500, 0.4), (1000, 0.0005)):
            with self.subTest(blocks=blocks, mib=mib):
                self.assertEqual(one.ask(f"max(take({mib}) for i in range({blocks}))"), 0)
                self.assertLessEqual(other.ask("look()"), seen[1] - int(blocks * mib))
                self.assertEqual(one.ask("free()"), 0)
                self.assertEqual(one.ask("look()"), seen[0])
                self.assertGreaterEqual(other.ask("look()"), seen[1] - KEPT_MIB)
        # And it can have that.
        for _ in range(seen[1] // 256 - 1):
            self.assertEqual(other.ask("take(256)"), 0)
        self.assertEqual(other.ask("free()"), 0)

    def test_a_reset_gives_all_back(self):
        server = self.serve("--warm-workers", "1", "--sandbox", "off")
        one, other = Program(self, server.url), Program(self, server.url)
        seen = self.first_looks(one, other)
        for _ in range(2):
            self.assertEqual(one.ask("max(take(50) for i in range(10))"), 0)
            self.assertEqual(one.ask("max(take(0.001) for i in range(1000))"), 0)
            self.assertLessEqual(other.ask("look()"), seen[1] - 500)
            self.assertEqual(one.ask("reset()"), 0)
            self.assertEqual(one.ask("look()"), seen[0])
            self.assertGreaterEqual(other.ask("look()"), seen[1] - KEPT_MIB)


if __name__ == "__main__":
    unittest.main(verbosity=2)
