#!/usr/bin/env python3
"""tessera-replay as users call it: exit codes, sentences, files."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = sys.argv.pop(1)
LOADS = ["--load", "a request=0.7 kernel=1ms", "--load", "b request=0.3 kernel=5ms", "--seconds", "3"]


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=50)


class ReplayProgram(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def fails(self, code, words, *sentences):
        done = run(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for sentence in ("tessera-replay: ", *sentences):
            self.assertIn(sentence, done.stderr)

    def test_help_version_and_completion(self):
        self.assertIn("Exit codes", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^tessera-replay \d")
        script = run("--completion", "bash").stdout
        self.assertIn("fair", script)

    def test_a_load_is_simulated(self):
        done = run(*LOADS, "-o", "json", "--svg", self.path / "picture.svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertAlmostEqual(report["vgpus"][0]["share"], 0.7, delta=0.03)
        xml.etree.ElementTree.parse(self.path / "picture.svg")
        self.assertIn("Jain", run(*LOADS).stdout)

    def test_a_record_is_replayed(self):
        trace = self.path / "gpu.trace"
        self.assertEqual(run(*LOADS, "--record", trace).returncode, 0)
        done = run(trace)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(run(trace, "--policy", "equal").returncode, 0)
        again = self.path / "again.trace"
        self.assertEqual(run(trace, "--record", again).returncode, 0)
        self.assertEqual(trace.read_text(), again.read_text())
        # A token that is a nanosecond longer.
        lines = trace.read_text().splitlines()
        number = next(i for i, line in enumerate(lines) if " gate " in line and " metered " in line and not line.endswith(" 0 0"))
        words = lines[number].split()
        words[4] = str(int(words[4]) + 1)
        lines[number] = " ".join(words)
        trace.write_text("\n".join(lines) + "\n")
        done = run(trace)
        self.assertEqual(done.returncode, 4)
        self.assertIn(f"line {number + 1}: the answer is", done.stderr)

    def test_what_is_wrong_is_said(self):
        self.fails(2, [], "name a file or give --load")
        self.fails(2, ["--policy", "best", *LOADS], "there are equal, fair, fixed, priority")
        self.fails(2, ["--sideways"], "--help")
        self.fails(2, [*LOADS, "--svg", self.path / "x.svg", "--from", "3", "--to", "2"], "--from")
        self.fails(3, [self.path / "nothing"], "nothing")
        (self.path / "text").write_text("a file\n")
        self.fails(3, [self.path / "text"], "line 1")
        (self.path / "load").write_text("tessera-load 1\na request=0.6\nb request=0.6\n")
        self.fails(3, [self.path / "load"], "request 0.6 is 0.2 too much")
        (self.path / "trace").write_text("tessera-trace 1\npolicy fair\nrequest-zero 1\n5 wants 0 1\n")
        self.fails(3, [self.path / "trace"], "line 4: session 0 is not there")
        self.fails(5, [*LOADS, "--record", self.path / "no" / "such"], "cannot be written")


if __name__ == "__main__":
    unittest.main()
