#!/usr/bin/env python3
"""All programs of a server have one emulated GPU: its memory and its time. What each got is read in the device page, since that is
exact on a busy machine as well.

usage: device_page_test.py BUILD_DIRECTORY
"""

import os
import signal
import subprocess
import sys
import time
import unittest

from product import TESSERA, DevicePage, Server, end_with_test, environment, program, state, the_server, wait_for

MIB = 1 << 20

# Allocates as many MiB as each line of its input says; prints what the call returned, and how many MiB are free then.
ALLOCATE = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
print("ready", flush=True)
for line in sys.stdin:
    result = cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(line) << 20)) if int(line) else 0
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    print(result, free.value >> 20, total.value >> 20, flush=True)
"""


class DevicePageTest(unittest.TestCase):
    def serve(self, **variables):
        # Without pauses before kernels: a busy machine makes them longer.
        self.server = Server(env=environment(TESSERA_EMULATOR_DELAY_US="0", **variables))
        self.addCleanup(self.server.stop)

    def start(self, *words):
        """A program, and its worker; the program has said one line."""
        before = self.server.workers()
        process = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--", *words], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment())
        end_with_test(process)
        self.addCleanup(self.end, process)
        self.assertNotEqual(process.stdout.readline(), "")
        worker, = set(self.server.workers()) - set(before)
        self.page = DevicePage(self.server)
        return process, worker

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()


class Time(DevicePageTest):
    def tenant(self, duration_us):
        _, worker = self.start(program("occupy"), "1000000", str(duration_us))
        wait_for(lambda: self.page.busy_ns(worker) > 0, 20, "a kernel on the device")
        return worker

    def shares(self, workers, ms):
        """The device time, in ms, that each gets until the first has got so much."""
        before = [self.page.busy_ns(worker) for worker in workers]
        wait_for(lambda: self.page.busy_ns(workers[0]) - before[0] >= ms * 1e6, 30, "time on the device")
        return [(self.page.busy_ns(worker) - start) / 1e6 for worker, start in zip(workers, before)]

    def check_equal(self, workers):
        """In one window of several: a process that gets no processor for a while loses its turns meanwhile."""
        seen = []
        for _ in range(5):
            shares = self.shares(workers, 300)
            if all(abs(share / shares[0] - 1) < 0.05 for share in shares):
                return
            seen.append(shares)
        self.fail(f"unequal device times, in ms: {seen}")

    def test_one_alone_has_all_of_it(self):
        self.serve()
        worker = self.tenant(700)
        seen = []
        for _ in range(5):
            begin = time.monotonic()
            share, = self.shares([worker], 300)
            seen.append(share / 1000 / (time.monotonic() - begin))
            self.assertLess(seen[-1], 1.1, "more time than has passed")
            if seen[-1] > 0.9:
                return
        self.fail(f"parts of the time that has passed: {seen}")

    def test_two_and_three_get_as_much(self):
        self.serve()
        workers = [self.tenant(500), self.tenant(20_000)]
        self.check_equal(workers)
        workers.append(self.tenant(3000))
        self.check_equal(workers)
        begin, shares = time.monotonic(), self.shares(workers, 200)
        self.assertLess(sum(shares), (time.monotonic() - begin) * 1000 + 50, "more time than has passed")

    def test_one_that_is_stopped_keeps_nobody_waiting(self):
        self.serve()
        first, second = self.tenant(50_000), self.tenant(1000)
        for _ in range(3):
            os.kill(first, signal.SIGSTOP)
            wait_for(lambda: state(first) == "T", 10, "the stop of a worker")
            time.sleep(0.05)
            stopped = self.page.busy_ns(first)
            begin = time.monotonic()
            self.shares([second], 200)
            # If it stopped the device again with each of its turns, this would take 2 s.
            self.assertLess(time.monotonic() - begin, 1)
            self.assertEqual(self.page.busy_ns(first), stopped)
            os.kill(first, signal.SIGCONT)
            wait_for(lambda: self.page.busy_ns(first) > stopped, 10, "a kernel on the device")
        self.check_equal([first, second])

    def test_one_that_dies_keeps_nobody_waiting(self):
        self.serve()
        first, second = self.tenant(50_000), self.tenant(1000)
        os.kill(first, signal.SIGKILL)
        begin = time.monotonic()
        self.shares([second], 200)
        self.assertLess(time.monotonic() - begin, 1)


class MemoryOfAll(DevicePageTest):
    def allocate(self, process, mib):
        process.stdin.write(f"{mib}\n")
        process.stdin.flush()
        return tuple(map(int, process.stdout.readline().split()))

    def test_it_is_bounded_and_comes_back(self):
        self.serve(TESSERA_EMULATOR_MEMORY_MIB="512")
        first, worker = self.start(sys.executable, "-c", ALLOCATE)
        second, other = self.start(sys.executable, "-c", ALLOCATE)
        self.assertEqual(self.allocate(first, 300)[0], 0)
        _, free, total = self.allocate(second, 0)
        self.assertEqual(total, 512)
        self.assertLessEqual(free, 212)
        self.assertGreaterEqual(free, 150)  # the sessions may hold some that they would reuse first
        self.assertGreaterEqual(self.page.used_bytes(worker), 300 * MIB)
        self.assertEqual(self.allocate(second, 300)[0], 2)  # CUDA_ERROR_OUT_OF_MEMORY
        self.assertLessEqual(self.page.used_bytes(worker) + self.page.used_bytes(other), 512 * MIB)
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: worker not in self.server.workers(), 10, "the end of a worker")
        wait_for(lambda: self.allocate(second, 0)[1] >= 450, 10, "the memory of a worker that has ended")
        self.assertEqual(self.allocate(second, 300)[0], 0)

    def test_readings_are_of_all(self):
        self.serve(TESSERA_EMULATOR_MEMORY_MIB="512")
        programs = [self.start(sys.executable, "-c", ALLOCATE) for _ in range(2)]
        for process, _ in programs:
            self.assertEqual(self.allocate(process, 100)[0], 0)
        told = subprocess.run([TESSERA, "status", "--server", self.server.url, "-o", "json"], capture_output=True, text=True,
                              env=environment())
        used = sum(self.page.used_bytes(worker) for _, worker in programs)
        self.assertEqual(the_server(told.stdout)["devices"][0]["memory_used_bytes"], used, told.stdout)

    def test_a_private_server_has_one_for_each_process(self):
        # Two processes of one program, each of which takes more than half.
        parent = ALLOCATE.split("print(")[0] + """
import os, subprocess
result = cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(400 << 20))
print(result, flush=True)
if len(sys.argv) == 1: subprocess.run([sys.executable, "-c", os.environ["SELF"], "child"])
"""
        done = subprocess.run([TESSERA, "run", "--driver", "emulator", "--quiet", "--", sys.executable, "-c", parent], text=True,
                              stdout=subprocess.PIPE, timeout=60, env=environment(TESSERA_EMULATOR_MEMORY_MIB="512", SELF=parent))
        self.assertEqual(done.stdout.split(), ["0", "0"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
