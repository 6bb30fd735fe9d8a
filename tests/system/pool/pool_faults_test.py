#!/usr/bin/env python3
"""A pool whose placer, nodes and brokers are killed, again and again, while jobs come and go: no job fails, nothing is given twice, and in the
end all agree on what is.

TESSERA_TEST_KILLS, TESSERA_TEST_JOBS: how often each test kills, during how many jobs at least (default: 10, 40).
"""

import json
import os
import random
import signal
import subprocess
import threading
import time
import unittest

import ledger
from pool import Pool
from product import TESSERA, environment, program, wait_for

KILLS = int(os.environ.get("TESSERA_TEST_KILLS", "10"))
JOBS = int(os.environ.get("TESSERA_TEST_JOBS", "40"))
BESIDE_EACH_OTHER = 4
NO_PLACER = 80


# A job begins two sessions, so that its ticket is shown again behind a kill; now and then one does more.
SHORT = f'test "$({program("count")})" = 1 && sleep 0.3 && test "$({program("count")})" = 1'


class Jobs:
    """Jobs at half a GPU that come and go, some at a time; one that met no placer is started again."""

    def __init__(self, pool):
        self.pool, self.left = pool, JOBS
        self.lock = threading.Lock()
        self.failed, self.done = [], 0
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(BESIDE_EACH_OTHER)]
        for thread in self.threads:
            thread.start()

    def work(self):
        while True:
            with self.lock:
                if self.left == 0:
                    return
                self.left -= 1
                words = [program("copies")] if self.left % 10 == 5 else ["sh", "-c", SHORT]
            end = time.monotonic() + 30
            while True:
                done = self.pool.run("--gpu-share", "0.5", "--gpu-mem", "256M", "--", *words)
                if done.returncode != NO_PLACER or time.monotonic() > end:
                    break
                time.sleep(0.05)
            with self.lock:
                self.done += 1
                if done.returncode != 0:
                    self.failed.append((done.returncode, done.stderr))

    def go_on(self, goes_on):
        """While something is still to be killed, there are jobs."""
        with self.lock:
            if goes_on:
                self.left = max(self.left, BESIDE_EACH_OTHER + 1)

    def wait(self):
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a job hangs"


def ask(pool, what):
    """Of the placer."""
    out = subprocess.run([TESSERA, "get", what, "-o", "json", "--placer", pool.url], capture_output=True, text=True, timeout=30, env=environment())
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)[what]


def promised(server):
    """What its ledger has, as vGPUs: name to GPU, share and memory."""
    return {f"grant-{grant}-{place}": (gpu, share / ledger.WHOLE, size) for grant, (state, rows) in ledger.promises(server.ledger()).items()
            for place, (gpu, share, size) in enumerate(rows) if state == "granted"}


def made(server):
    """What its broker has, in the same form."""
    return {name: (row["gpu_uuid"], row["request"], row["memory_bytes"]) for name, row in server.vgpus().items()}


class Killed(unittest.TestCase):
    def setUp(self):
        self.pool = Pool(servers=3)
        self.addCleanup(self.pool.stop)
        self.watch = ledger.Watch(self.pool.servers, self.pool.servers[0].status()["devices"][0]["memory_bytes"])
        self.addCleanup(self.watch.stop)
        self.random = random.Random(1)

    def check_end(self, jobs):
        jobs.wait()
        self.assertEqual(jobs.failed, [])
        self.assertGreaterEqual(jobs.done, JOBS)
        wait_for(lambda: self.pool.grants() == {} and ask(self.pool, "grants") == [], 75, "the grants' end")  # a grant of which no job heard: 60 s

    def test_a_placer_that_is_killed_at_any_moment(self):
        jobs = Jobs(self.pool)
        for kill in range(KILLS):
            time.sleep(self.random.uniform(0, 0.8))
            self.pool.placer.kill()
            self.pool.placer = self.pool.start_placer()
            jobs.go_on(kill < KILLS - 1)
        self.check_end(jobs)

    def test_nodes_and_brokers_that_are_killed_at_any_moment(self):
        stay = [self.pool.job("--gpu-share", "0.5", "--gpu-mem", "256M", "--", program("count"), "wait") for _ in range(3)]
        for job in stay:
            self.assertEqual(job.stdout.readline(), "1\n", job.poll() is not None and job.stderr.read())
        jobs = Jobs(self.pool)
        for kill in range(KILLS):
            time.sleep(self.random.uniform(0, 0.8))
            server = self.random.choice(self.pool.servers)
            pid = (server.node, server.broker)[kill % 2]()
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            jobs.go_on(kill < KILLS - 1)
        jobs.wait()
        for server in self.pool.servers:  # both at once, in the end
            os.kill(server.broker(), signal.SIGKILL)
            os.kill(server.node(), signal.SIGKILL)
        self.check_agreement(len(stay))
        for job in stay:
            job.stdin.close()
            self.assertEqual(job.wait(20), 0, job.stderr.read())
            job.stdout.close()
            job.stderr.close()
        self.check_end(jobs)

    def check_agreement(self, count):
        """Ledger, vGPUs, sessions and placer say the same."""
        wait_for(lambda: all(server.node() and server.broker() for server in self.pool.servers), 20, "other nodes and brokers")
        wait_for(lambda: sum(len(made(server)) for server in self.pool.servers) == count and
                 all(promised(server) == made(server) for server in self.pool.servers), 20, "ledgers and vGPUs agreeing")
        # As tesserad tells of sessions, each is in its grant's vGPU.
        wait_for(lambda: all(sorted(row["vgpu"] for row in server.status()["session_list"]) == sorted(made(server)) for server in self.pool.servers), 20,
                 "each job's session in its vGPU")
        of_address = {row["addresses"][0]: row["server"] for row in ask(self.pool, "servers")}
        granted = {(part["server"], gpu["uuid"], f"grant-{grant['grant']}-{place}") for grant in ask(self.pool, "grants")
                   for part in grant["parts"] for place, gpu in enumerate(part["gpus"])}
        self.assertEqual(granted, {(of_address["unix:" + server.path], row[0], name) for server in self.pool.servers for name, row in made(server).items()})


class Tickets(unittest.TestCase):
    """A job that begins sessions one after another for longer than its ticket was to live."""

    LIFE = 10  # seconds: the shortest
    BEGIN_AGAIN = f'for i in $(seq 0 {2 * LIFE + 6}); do test "$({program("count")})" = 1 || exit 9; sleep 0.5; done'

    def test_with_the_placer_and_while_it_is_away(self):
        pools = [Pool("--ticket-life", str(self.LIFE)) for _ in range(2)]
        for pool in pools:
            self.addCleanup(pool.stop)
        jobs = [pool.job("--gpu-share", "0.5", "--gpu-mem", "256M", "--", "sh", "-c", "echo ready; " + self.BEGIN_AGAIN) for pool in pools]
        for job in jobs:
            self.assertEqual(job.stdout.readline(), "ready\n")
        pools[1].placer.kill()
        for job in jobs:
            self.assertEqual(job.wait(60), 0, job.stderr.read())
            for pipe in (job.stdin, job.stdout, job.stderr):
                pipe.close()
        pools[1].placer = pools[1].start_placer()
        for pool in pools:
            wait_for(lambda: pool.grants() == {}, 20, "the grant's end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
