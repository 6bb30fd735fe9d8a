#!/usr/bin/env python3
"""What of `quota` does not depend on the machine: instructions and system calls, which are counted, and what it does with
figures. No time decides anything here.

usage: quota_test.py BUILD_DIRECTORY
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "system")]
import pairs  # noqa: E402
from product import BUILD, environment  # noqa: E402


def run(*words):
    return subprocess.run([sys.executable, os.path.join(HERE, "quota"), *words], capture_output=True, text=True, timeout=400,
                          env=environment())


class Quota(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.output = os.path.join(self.directory.name, "figures.json")

    def quota(self, *words):
        """Its exit status, its table, and its rows by name."""
        done = run(BUILD, "-o", self.output, *words)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        with open(self.output) as file:
            rows = {one["row"]: one for one in json.load(file)["rows"]}
        for name, one in rows.items():
            self.assertIn(name, done.stdout)
            self.assertIn(one["verdict"], done.stdout)
        self.assertEqual(done.returncode == 1, pairs.MISSED in done.stdout, done.stdout + done.stderr)
        return done.returncode, done.stdout, rows

    def test_who_shares_nothing_and_who_is_limited_pays_no_instructions(self):
        if shutil.which("valgrind") is None:
            print("\nSKIPPED: valgrind is not installed, nobody has counted what a record costs", file=sys.stderr, flush=True)
            self.skipTest("valgrind is not installed")
        code, table, rows = self.quota("--only", "caller,records,allocations")
        self.assertEqual(code, 0, table)
        self.assertEqual([one["verdict"] for one in rows.values()], [pairs.PASS] * 5, table)
        # What is got from the driver each time is counted each time, in either way.
        from_driver = rows["a worker's cuMemAlloc and free of 2048 MiB, with a limit / without"]["counts"]
        self.assertGreater(from_driver["unlimited"]["locked"], rows["a worker's cuMemAlloc and free of 64 MiB, with a limit / without"]["counts"]["limited"]["locked"])
        record = rows["a worker's record, broker and nothing shared / no broker"]["counts"]
        self.assertGreater(record["none"]["instructions"], 100)
        self.assertGreater(record["none"]["locked"], 0)

    def test_few_pairs_decide_nothing(self):
        code, table, rows = self.quota("--only", "armed,begin,memory,decisions", "--pairs", "1", "--seconds", "0.005")
        in_pairs = [one for one in rows.values() if "values" in one]
        self.assertEqual(len(in_pairs), 7, table)
        for one in in_pairs:
            self.assertEqual(one["verdict"], pairs.NOT_DECIDED, table)
            self.assertEqual(len(one["values"]), 1)
            self.assertGreater(one["figure"], 0)

    def test_what_it_does_not_understand(self):
        done = run()
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage: quota ", done.stdout)
        done = run(BUILD, "--only", "pigeon")
        self.assertEqual(done.returncode, 1)
        self.assertIn("caller,records,allocations,waits,alone", done.stderr)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)  # 77: ctest calls it skipped
