#!/usr/bin/env python3
"""The toy spec generates exactly the files in golden/generated. `golden_test.py --update` rewrites them; look at the difference."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden" / "generated"
GENERATE = HERE.parents[2] / "protocol" / "codegen" / "generate.py"


def generate(directory):
    subprocess.run([sys.executable, GENERATE, "--spec", HERE / "toy", "--out", directory], check=True)


def files(directory):
    return {str(p.relative_to(directory)): p.read_text() for p in directory.rglob("*") if p.is_file()}


class Golden(unittest.TestCase):
    maxDiff = None

    def test_output_is_golden(self):
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            generate(directory)
            produced, golden = files(directory), files(GOLDEN)
            self.assertEqual(sorted(produced), sorted(golden))
            for name in golden:
                self.assertEqual(produced[name], golden[name], name)

    def test_unchanged_files_are_left_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            generate(directory)
            before = {p: p.stat().st_mtime_ns for p in directory.rglob("*") if p.is_file()}
            changed = directory / "client" / "toy.cc"
            changed.write_text("something else")
            generate(directory)
            for path, time in before.items():
                self.assertEqual(path.stat().st_mtime_ns == time, path != changed, path)

    def test_first_line_names_the_source(self):
        for name, text in files(GOLDEN).items():
            self.assertRegex(text.splitlines()[0], r"^(//|#) Generated from protocol/spec/[\w*]+\.toml by ", name)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        shutil.rmtree(GOLDEN, ignore_errors=True)
        generate(GOLDEN)
    else:
        unittest.main()
