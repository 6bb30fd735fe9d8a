#!/usr/bin/env python3
"""Slurm's Prolog, TaskProlog and Epilog (deploy/slurm), with the variables that Slurm sets."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = "TESSERA_SITE_SERVER=tls://gpu7.example:4180\n"


class Prolog(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        # As packages and the archive have it; Slurm may know it by a link.
        self.prefix = pathlib.Path(self.place.name).resolve() / "tessera"
        (self.prefix / "slurm").mkdir(parents=True)
        shutil.copy(ROOT / "deploy/slurm/prolog", self.prefix / "slurm")
        self.script = pathlib.Path(self.place.name, "prolog")
        self.script.symlink_to(self.prefix / "slurm/prolog")
        self.jobs = pathlib.Path(self.place.name, "jobs")

    def run_as(self, context, site=SITE, job="7", **variables):
        file = pathlib.Path(self.place.name, "site")
        file.write_text(site)
        done = subprocess.run([self.script], capture_output=True, text=True, timeout=10,
                              env={"TESSERA_SITE_FILE": str(file), "TESSERA_SITE_JOBS": str(self.jobs), "SLURM_SCRIPT_CONTEXT": context,
                                   "SLURM_JOB_ID": job, **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def begin(self, constraints="tessera", site=SITE):
        self.assertEqual(self.run_as("prolog_slurmd", site, **({"SLURM_JOB_CONSTRAINTS": constraints} if constraints else {})), "")

    def test_a_job_that_asks_for_it(self):
        self.begin("avx512&tessera")
        library = self.prefix / "lib/client"
        server = "export TESSERA_SERVER=tls://gpu7.example:4180\n"
        self.assertEqual(self.run_as("prolog_task", LD_LIBRARY_PATH="/opt/lib"), f"{server}export LD_LIBRARY_PATH={library}:/opt/lib\n")
        self.assertEqual(self.run_as("prolog_task"), f"{server}export LD_LIBRARY_PATH={library}\n")
        self.assertEqual(self.run_as("prolog_task", LD_LIBRARY_PATH=f"{library}:/opt/lib"), server)
        self.assertEqual(self.run_as("prolog_task", job="8"), "")

    def test_a_pool(self):
        site = "TESSERA_SITE_PLACER=tls://pool.example:4190\n"
        self.begin(site=site)
        self.assertEqual(self.run_as("prolog_task", site), "export TESSERA_PLACER=tls://pool.example:4190\n")

    def test_nothing_is_left_of_a_job(self):
        self.begin()
        self.assertEqual(os.listdir(self.jobs), ["7"])
        self.assertEqual(self.run_as("epilog_slurmd"), "")
        self.assertEqual(os.listdir(self.jobs), [])
        self.assertEqual(self.run_as("prolog_task"), "")

    def test_other_jobs_and_sites_without_either(self):
        for constraints in (None, "avx512"):
            self.begin(constraints)
            self.assertEqual(self.run_as("prolog_task"), "")
            self.assertEqual(self.run_as("epilog_slurmd"), "")
        self.begin(site="")
        self.assertRegex(self.run_as("prolog_task", ""), "^print tessera: neither .* is set in ")


if __name__ == "__main__":
    unittest.main()
