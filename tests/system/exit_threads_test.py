#!/usr/bin/env python3
"""Programs whose main returns while threads are in each kind of call: over a channel, TCP and TLS.

usage: exit_threads_test.py BUILD_DIRECTORY
"""

import concurrent.futures
import os
import random
import subprocess
import unittest

from product import CLIENT, TESSERA, Agent, Gateway, Keys, Server, check_no_finding, environment, program

PROGRAM = program("exit_threads")
ROUNDS = int(os.environ.get("TESSERA_TEST_EXITS", "1"))  # of each kind
AT_ONCE = 4
DELAY_US_MAX = 20_000


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

    def run_one(self, kind, delay_us):
        """What was wrong, None: nothing."""
        words = [TESSERA, "run", "--quiet", "--server", self.url, "--", PROGRAM, kind, str(delay_us)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
        except subprocess.TimeoutExpired as late:
            return f"{kind} {delay_us}: does not end: {late.stdout} {late.stderr}"
        check_no_finding(done.stderr)
        if (done.returncode, done.stdout, done.stderr) == (0, "ok\n", ""):
            return None
        return f"{kind} {delay_us}: exit code {done.returncode}, {done.stdout!r} {done.stderr!r}"

    def test_ends_as_it_wants_to(self):
        kinds = subprocess.run([PROGRAM, "kinds"], capture_output=True, text=True, check=True,
                               env={**environment(), "LD_LIBRARY_PATH": CLIENT}).stdout.split()
        self.assertGreater(len(kinds), 20)
        runs = [(kind, random.randrange(DELAY_US_MAX)) for kind in kinds for _ in range(ROUNDS)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            wrong = [what for what in pool.map(lambda run: self.run_one(*run), runs) if what]
        self.assertEqual(wrong, [])


class OverTcp(OverAChannel):
    link = "tcp"


class OverTls(OverAChannel):
    link = "tls"


if __name__ == "__main__":
    unittest.main()
