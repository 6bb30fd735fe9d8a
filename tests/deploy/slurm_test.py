#!/usr/bin/env python3
"""Slurm's TaskProlog (deploy/slurm), with the variables that Slurm sets."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = "TESSERA_SITE_SERVER=tls://gpu7.example:4180\n"


class TaskProlog(unittest.TestCase):
    def said(self, site=SITE, **variables):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(site)
            file.flush()
            done = subprocess.run([ROOT / "deploy/slurm/task-prolog"], capture_output=True, text=True, timeout=10,
                                  env={"PATH": os.environ["PATH"], "TESSERA_SITE_FILE": file.name, **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_job_that_asks_for_it(self):
        for variable in ("SLURM_JOB_CONSTRAINTS", "SLURM_JOB_GRES"):
            self.assertEqual(self.said(**{variable: "avx512&tessera", "LD_LIBRARY_PATH": "/opt/lib"}),
                             "export TESSERA_SERVER=tls://gpu7.example:4180\n"
                             "export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/tessera/lib/client:/opt/lib\n")

    def test_a_pool(self):
        self.assertEqual(self.said("TESSERA_SITE_PLACER=tls://pool.example:4190\n", SLURM_JOB_CONSTRAINTS="tessera"),
                         "export TESSERA_PLACER=tls://pool.example:4190\n")

    def test_other_jobs_and_sites_without_either(self):
        self.assertEqual(self.said(), "")
        self.assertEqual(self.said(SLURM_JOB_CONSTRAINTS="avx512"), "")
        self.assertRegex(self.said("", SLURM_JOB_CONSTRAINTS="tessera"), "^print tessera: neither .* is set in ")


if __name__ == "__main__":
    unittest.main()
