#!/usr/bin/env python3
"""A program that waits long to touch managed memory is told why, once.

usage: managed_wait_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import unittest

from product import CLIENT, Server, environment, program


@unittest.skipUnless(os.path.exists(program("managed_wait")), "the CUDA test programs were not built: nvcc is missing")
class ManagedWait(unittest.TestCase):
    def setUp(self):
        self.server = Server(log="warning")

    def tearDown(self):
        self.assertEqual(self.server.stop(), 0)

    def said(self, *arguments):
        done = subprocess.run([program("managed_wait"), *arguments], capture_output=True, text=True, timeout=100,
                              env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=self.server.url))
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
        return done.stderr

    def test_nothing_is_said_of_a_short_wait(self):
        self.assertEqual(self.said("1"), "")

    def test_the_limit_is_named_once(self):
        lines = self.said("12", "2").splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("has waited 10 s to touch managed memory", lines[0])
        self.assertIn("concurrentManagedAccess is 0", lines[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
