#!/usr/bin/env python3
"""A placer whose clients do their worst: it keeps no more than it may for them, and a server and a job beside them live on."""

import json
import os
import subprocess
import sys
import time
import unittest

from pool import Pool, wait_for
from product import end_with_test, status_of

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import control_flood  # noqa: E402

SECONDS = 4
GROWN_MIB_MAX = 250  # some 64 are allowed, and what comes between two looks


class Flood(unittest.TestCase):
    def test_a_flood_is_bounded_and_a_server_and_a_job_live_on(self):
        pool = Pool()
        self.addCleanup(pool.stop)
        job = pool.job("--gpu-share", "0.5", "--", "sh", "-c", "echo ready; read line; exit 7")
        self.addCleanup(lambda: [pipe.close() for pipe in (job.stdin, job.stdout, job.stderr)])
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "ready\n")
        resident_mib = lambda: int(status_of(pool.placer.process.pid)["VmRSS"].split()[0]) / 1024
        before_mib, most_mib = resident_mib(), []
        flood = subprocess.Popen([control_flood.__file__, "--placer", pool.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        end_with_test(flood)
        self.assertEqual(flood.stdout.readline(), "begins\n")
        end = time.monotonic() + SECONDS
        try:
            wait_for(lambda: most_mib.append(resident_mib()) or time.monotonic() > end, 60, "the flood")
        finally:
            flood.stdin.close()
            did = json.loads(flood.stdout.read())
            self.assertEqual(flood.wait(30), 0)
            flood.stdout.close()
        grown_mib = max(most_mib) - before_mib
        said = f"{grown_mib:.0f} MiB more beside {did}; {pool.placer.words()[-1000:]}"
        print(said, file=sys.stderr, flush=True)
        for kind in control_flood.KINDS:
            self.assertGreaterEqual(did[kind]["connections"], control_flood.OF_KIND, said)
        self.assertGreater(did["changes"]["answers"], 0, said)
        self.assertLess(grown_mib, GROWN_MIB_MAX, said)
        self.assertIn("connections of", pool.placer.words())
        # The node was ended too, perhaps, and is back; the job has what it had, and another gets the other half.
        other = pool.run("--gpu-share", "0.5", "--wait", "30s", "--", "true")
        self.assertEqual(other.returncode, 0, other.stderr)
        wait_for(lambda: len(pool.grants()) == 1, 10, "the end of the other's grant")
        job.stdin.close()
        self.assertEqual(job.wait(20), 7)
        wait_for(lambda: pool.grants() == {}, 20, "the end of the job's grant")


if __name__ == "__main__":
    unittest.main(verbosity=2)
