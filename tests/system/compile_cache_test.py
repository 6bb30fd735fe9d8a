#!/usr/bin/env python3
"""Compilers in a program (NVRTC) keep what they made: the second run of a program uses it, and computes the same.

usage: compile_cache_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

from product import TESSERA, environment, program

PROGRAM = program("nvrtc")


class CompileCache(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROGRAM):
            self.skipTest("nvcc was not found when this was built: there is no program that uses NVRTC")
        self.directory = tempfile.TemporaryDirectory()
        self.kept = pathlib.Path(self.directory.name) / "tessera"

    def tearDown(self):
        self.directory.cleanup()

    def run_program(self, **variables):
        done = subprocess.run([TESSERA, "run", "--driver", "emulator", "--quiet", "--", PROGRAM],
                              env=environment(CUDA_CACHE_PATH=self.directory.name, **variables), capture_output=True,
                              text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def state(self):
        return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in self.kept.iterdir()}

    def test_a_second_run_uses_what_the_first_one_made(self):
        first = self.run_program()
        made = self.state()
        self.assertGreater(len(made), 0)
        self.assertEqual(self.run_program(), first)
        used = self.state()
        self.assertEqual({name: content for name, (content, _) in made.items()}, {name: content for name, (content, _) in used.items()})
        for name in made:
            self.assertGreater(used[name][1], made[name][1], "not used")

    def test_damage_does_no_harm(self):
        first = self.run_program()
        for file in self.kept.iterdir():
            content = bytearray(file.read_bytes())
            content[-7] ^= 0x40
            file.write_bytes(content)
        self.assertEqual(self.run_program(), first)

    def test_it_can_be_switched_off(self):
        self.run_program(CUDA_CACHE_DISABLE="1")
        self.assertFalse(self.kept.exists())


if __name__ == "__main__":
    unittest.main(verbosity=1)
