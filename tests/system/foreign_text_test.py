#!/usr/bin/env python3
"""Text that a client chooses, with escape sequences and bytes that are no UTF-8: it disturbs neither terminals, nor logs, nor JSON.

usage: foreign_text_test.py BUILD_DIRECTORY
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from product import TESSERA, Server, environment, program, the_server

# Clears a screen, sets its title, writes from right to left; two bytes are no UTF-8, one is an escape of eight bits.
NAME = b"evil\x1b[2J\x1b]0;title\x07\xe2\x80\xae\xff\xfe\x9b1m\xc2\x9b"
SHOWN = "evil?[2J?]0;title?????1m?"
# What reaches a terminal but newlines and what can be seen.
CONTROLS = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]")


class ForeignText(unittest.TestCase):
    def setUp(self):
        self.server = Server(log="debug")
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        path = os.path.join(os.fsencode(self.directory.name), NAME)
        shutil.copy(program("count"), path)
        self.client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.server.url, "--", path, "wait"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        self.assertEqual(self.client.stdout.readline(), b"1\n")

    def tearDown(self):
        self.client.communicate(timeout=30)
        with open(self.server.log.name, "rb") as log:
            words = log.read()
        self.assertEqual(self.server.stop(), 0)
        self.assert_calm(words)

    def assert_calm(self, output):
        self.assertIsNone(CONTROLS.search(output), output)
        output.decode()  # or the test fails

    def ask(self, *words):
        done = subprocess.run([TESSERA, *words, "--server", self.server.url], capture_output=True, timeout=60, env=environment())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assert_calm(done.stdout)
        return done.stdout.decode()

    def test_json_for_everybody(self):
        for command in ("status", "top"):
            sessions = the_server(self.ask(command, "--output", "json"))["session_list"]
            self.assertEqual([session["program"] for session in sessions], [SHOWN])

    def test_tables(self):
        self.assertIn(SHOWN, self.ask("top"))
        self.ask("status")
        self.ask("doctor")


if __name__ == "__main__":
    unittest.main(verbosity=2)
