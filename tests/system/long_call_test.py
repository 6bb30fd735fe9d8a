#!/usr/bin/env python3
"""Clients that end while a call of theirs is inside the driver, and would be for ever: their workers end too. One that is only without
its link keeps its worker for the grace time.

usage: long_call_test.py BUILD_DIRECTORY
"""

import os
import signal
import subprocess
import sys
import time
import unittest

from product import BUILD, TESSERA, Gateway, Server, environment, wait_for

DRIVER = os.path.join(BUILD, "tests/system/libendless-driver.so")
# Begins to make an array, which this driver does not end.
CALL = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, array = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
print("calling", flush=True)
cuda.cuArrayCreate_v2(ctypes.byref(array), (ctypes.c_size_t * 3)(16, 16, 1 | 1 << 32))
"""


class LongCall(unittest.TestCase):
    def setUp(self):
        self.server = Server(driver=DRIVER)
        self.addCleanup(self.server.stop)

    def start(self, url):
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", url, "--", sys.executable, "-c", CALL], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(lambda: (client.kill(), client.communicate()))
        self.assertEqual(client.stdout.readline(), "calling\n")
        time.sleep(0.5)  # the call is in the driver
        self.assertEqual(len(self.server.workers()), 1)
        return client

    def ends(self):
        began = time.monotonic()
        wait_for(lambda: not self.server.workers(), 12, "the end of the worker")
        return time.monotonic() - began

    def test_a_client_that_is_killed(self):
        client = self.start(self.server.url)
        client.kill()
        print(f"{self.ends():.2f} s", end=" ", flush=True)
        wait_for(lambda: "a call was still inside the driver" in self.server.words(), 10, "the line in the log")

    def test_a_session_that_is_ended_by_the_server(self):
        self.start(self.server.url)
        os.kill(self.server.process.pid, signal.SIGTERM)
        self.ends()

    def test_a_client_on_another_host(self):
        gateway = Gateway(self.server.path, "--resume-grace", "6")
        client = self.start(gateway.url)
        # Its link is lost, and it comes back to another process of the gateway.
        os.kill(gateway.carrier(), signal.SIGKILL)
        time.sleep(4)
        self.assertEqual(len(self.server.workers()), 1)
        client.kill()
        self.ends()
        self.assertEqual(gateway.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
