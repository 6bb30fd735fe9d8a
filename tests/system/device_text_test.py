#!/usr/bin/env python3
"""What the driver writes to stdout and stderr reaches those of the program, and not those of the server.

usage: device_text_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import unittest

from product import CLIENT, Server, environment, program


@unittest.skipUnless(os.path.exists(program("device_errors")), "the CUDA test programs were not built: nvcc is missing")
class DeviceText(unittest.TestCase):
    def setUp(self):
        self.server = Server(log="warning")
        self.said = "^$"  # by the server

    def tearDown(self):
        words = self.server.words()
        self.assertEqual(self.server.stop(), 0)
        self.assertRegex(words, self.said)

    def run_program(self, what):
        done = subprocess.run([program("device_errors"), what], capture_output=True, text=True, timeout=60,
                              env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=self.server.url))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def check_assertion(self, text):
        # One line for each thread, or for the first of them: the device stops them all when one has failed.
        lines = text.splitlines()
        self.assertIn(len(lines), (1, 2), text)
        for line in lines:
            self.assertRegex(line, r"device_errors\.cu:\d+: .*Fails\(int\).*: block: \[0,0,0\], thread: \[[01],0,0\] Assertion "
                                   r"`value == 7 && \"as the test wants it\"` failed\.$")

    def test_a_failed_assertion(self):
        out, err = self.run_program("assert")
        self.assertEqual(out, "ended with 710\n")
        self.check_assertion(err)

    def test_prints_before_a_failed_assertion(self):
        out, err = self.run_program("print_before_assert")
        self.assertEqual(out, "printed 2\nended with 710\n")
        self.check_assertion(err)

    def test_a_trap(self):
        out, _ = self.run_program("trap")
        self.assertRegex(out, r"^ended with 7\d\d\n$")

    def test_a_blocking_copy_brings_out_what_was_printed(self):
        # Of a program that leaves without a word: as much as worker and daemon have noticed by then.
        self.said = "^(.*the peer is gone\n)?(.*ended.*\n)?$"
        self.assertEqual(self.run_program("print_and_copy"), ("printed 1\n", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
