"""What tests of a pool's commands have in common: a pool for each test, commands asked of its placer, jobs in it."""

import re
import subprocess
import unittest

from pool import Pool
from product import TESSERA, environment, wait_for

SHELL = ["sh", "-c", "echo ready; read line; exit 0"]


def say(*words, code=0, **changes):
    """What is on stdout, or on stderr where it is to fail; a command that prints JSON may do both."""
    done = subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=60, env=environment(**changes))
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    if code:
        assert re.fullmatch(r"tessera: [^\n]+\n", done.stderr), (words, done.stdout, done.stderr)
        assert done.stdout == "" or "json" in words, (words, done.stdout)
        return done.stderr
    assert done.stderr == "", done.stderr
    return done.stdout


def full_and_wanted(case, url, keys):
    """A job of this user has both GPUs of the pool, and one of alice's waits at `url`: both."""
    has = case.pool.job("--gpus", "2", "--", *SHELL)
    case.addCleanup(close, has)
    case.assertEqual(has.stdout.readline(), "ready\n")
    waits = subprocess.Popen([TESSERA, "run", "--placer", url, "--", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env=environment(**keys.environment("client", "alice")))
    case.addCleanup(waits.stderr.close)
    case.addCleanup(waits.kill)
    case.assertIn("waiting", waits.stderr.readline())
    return has, waits


def close(job):
    for pipe in (job.stdin, job.stdout, job.stderr):
        pipe.close()


class PoolCase(unittest.TestCase):
    def begin(self, *options, **more):
        self.pool = Pool(*options, **more)
        self.addCleanup(self.pool.stop)

    def ask(self, *words, **more):
        return say(*words, "--placer", self.pool.url, **more)

    def start(self, *words):
        """A job that runs."""
        job = self.pool.job(*words, "--", *SHELL)
        self.addCleanup(close, job)
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "ready\n", job.poll() is not None and job.stderr.read())
        return job

    def end(self, job):
        job.stdin.close()
        self.assertEqual(job.wait(20), 0)

    def end_all(self, job):
        """The last one: no server has a vGPU of it any more."""
        self.end(job)
        wait_for(lambda: self.pool.grants() == {}, 60, "the vGPU's end")
