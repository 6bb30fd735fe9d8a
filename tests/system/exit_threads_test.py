#!/usr/bin/env python3
"""Programs whose main returns while threads are in each kind of call: over a channel, TCP and TLS.

usage: exit_threads_test.py BUILD_DIRECTORY
"""

import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import unittest

from product import CLIENT, TESSERA, Agent, Gateway, Keys, Server, environment, program

PROGRAM = program("exit_threads")
ROUNDS = int(os.environ.get("TESSERA_TEST_EXITS", "1"))  # of each kind
AT_ONCE = 4
DELAY_US_MAX = 20_000
# What threads and forked children hold when a process ends is no leak.
ENVIRONMENT = environment(ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


class OverAChannel(unittest.TestCase):
    link = None

    def setUp(self):
        self.server = Server()
        self.url, self.parts = self.server.url, []
        if self.link is None:
            return
        keys = Keys() if self.link == "tls" else None
        gateway = Gateway(self.server.path, *(keys.options("server", "localhost,127.0.0.1") if keys else []), listen=self.link + "://127.0.0.1:0")
        agent = Agent(gateway.url, *(keys.options("client", "alice") if keys else []))
        self.url, self.parts = agent.url, [agent, gateway]

    def tearDown(self):
        for part in self.parts:
            self.assertEqual(part.stop(), 0)
        self.assertEqual(self.server.stop(), 0)

    def run_one(self, kind, delay_us, *way, end=(0, "ok\n", "")):
        """What was wrong, None: nothing. `end`: exit code, stdout and stderr that are right."""
        words = [TESSERA, "run", "--quiet", "--server", self.url, "--", PROGRAM, kind, str(delay_us), *way]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        except subprocess.TimeoutExpired as late:
            return f"{kind} {delay_us}: does not end: {late.stdout} {late.stderr}"
        if (done.returncode, done.stdout, done.stderr) == end:
            return None
        # What a sanitizer found stands in there, too.
        return f"{kind} {delay_us} {' '.join(way)}: exit code {done.returncode}, {done.stdout!r} {done.stderr!r}"

    def kinds(self):
        kinds = subprocess.run([PROGRAM, "kinds"], capture_output=True, text=True, check=True,
                               env={**environment(), "LD_LIBRARY_PATH": CLIENT}).stdout.split()
        self.assertGreater(len(kinds), 20)
        return kinds

    def run_all(self, run, runs):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            wrong = [what for what in pool.map(run, runs) if what]
        self.assertEqual(wrong, [])

    def test_ends_as_it_wants_to(self):
        kinds = [kind for kind in self.kinds() for _ in range(ROUNDS)]
        self.run_all(lambda kind: self.run_one(kind, random.randrange(DELAY_US_MAX)), kinds)

    def test_ends_without_exit_handlers(self):
        """All sessions end as well: tearDown() sees that."""
        ends = (7, "", ""), (7, "", ""), (-signal.SIGABRT, "", ""), (-signal.SIGKILL, "", "")
        ways = dict(zip(("_exit", "quick_exit", "abort", "kill"), ends))
        # A kind has one of the ways, another one at the next run of this test.
        runs = [(kind, random.choice(list(ways))) for kind in self.kinds() if not kind.startswith("exit")]
        self.run_all(lambda run: self.run_one(run[0], random.randrange(DELAY_US_MAX), run[1], end=ways[run[1]]), runs)

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "Python is not built with the sanitizer that the library needs")
    def test_the_library_is_closed_while_it_has_a_session(self):
        """Programs that load it by themselves may do so, and load it again."""
        text = """
import _ctypes, ctypes
for _ in range(3):
    library = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert library.cuInit(0) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert library.cuCtxSetCurrent(context) == 0
    assert library.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
    _ctypes.dlclose(library._handle)
print("ok")
"""
        done = subprocess.run([TESSERA, "run", "--quiet", "--server", self.url, "--", sys.executable, "-c", text], capture_output=True,
                              text=True, timeout=60, env=environment())
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""))


class OverTcp(OverAChannel):
    link = "tcp"


class OverTls(OverAChannel):
    link = "tls"


if __name__ == "__main__":
    unittest.main()
