#!/usr/bin/env python3
"""A placer whose store's disk is full, or whose store is damaged: jobs that wait hear of it in time, nothing that was answered is lost without a word.

usage: pool_disk_test.py BUILD_DIRECTORY
"""

import json
import os
import resource
import signal
import subprocess
import time
import unittest

from pool import PLACER
from pool_case import PoolCase
from product import environment, wait_for


def ignore_full_disk():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Disk(PoolCase):
    def setUp(self):
        # Files of the placer can be kept from growing: as on a full disk.
        self.begin("--sandbox", "off", before=ignore_full_disk, devices=1)
        self.store = os.path.join(self.pool.directory, "placer.db")

    def grants(self):
        return json.loads(self.ask("get", "grants", "-o", "json"))["grants"]

    def limit(self, size):
        resource.prlimit(self.pool.placer.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def test_a_full_disk_ends_waits_in_time_and_answers_no_release(self):
        job = self.start("--gpu-share", "0.25")
        [grant] = self.grants()
        self.limit(os.stat(self.store + "-wal").st_size)
        begun = time.monotonic()
        late = self.pool.run("--wait", "2s", "--gpu-share", "0.25", "--", "true")
        self.assertLess(time.monotonic() - begun, 12)
        self.assertEqual(late.returncode, 82, late.stderr)
        self.assertIn("waiting for a GPU of the pool: the placer could not store the grant: it tries again\n", late.stderr)
        self.assertIn("the job was not given a GPU in time: the placer could not store the grant\n", late.stderr)
        # What a placer that starts now would know again is not called gone, whoever asks again.
        for _ in range(2):
            self.assertIn("could not store that yet", self.ask("grants", "release", grant["grant"], code=81))
        self.limit(resource.RLIM_INFINITY)
        wait_for(lambda: "there is no grant" in self.ask("grants", "release", grant["grant"], code=81), 20, "the release's being stored")
        job.kill()
        joined = self.pool.joins()
        self.pool.placer.kill()
        self.pool.placer = self.pool.start_placer()
        wait_for(lambda: self.pool.joins() > joined, 30, "the server's joining again")
        self.assertEqual(self.grants(), [])

    def test_a_log_that_is_damaged_is_noticed_and_the_jobs_go_on(self):
        job = self.start("--gpu-share", "0.25")
        joined = self.pool.joins()
        self.pool.placer.kill()
        with open(self.store + "-wal", "rb") as log:
            whole = log.read()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1
        with open(self.store + "-wal", "wb") as log:
            log.write(damaged)
        words = [PLACER, "--listen", self.pool.url, "--store", f"sqlite:{self.store}", "--sandbox", "off"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment(), check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"placer\.db: this store is damaged: the last \d+ of its \d+ transactions are lost: bring a copy back")
        with open(self.store + "-wal", "wb") as log:
            log.write(whole)
        self.pool.placer = self.pool.start_placer()
        wait_for(lambda: self.pool.joins() > joined, 30, "the server's joining again")
        self.assertEqual([grant["state"] for grant in self.grants()], ["granted"])
        self.end_all(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
