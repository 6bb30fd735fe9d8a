#!/usr/bin/env python3
"""The host of a job that vanishes: all that it has of the job stands still, so that nothing comes any more. Its GPU is another's after the time in
which a silent connection is noticed, --resume-grace, and 60 s more."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import unittest

from pool import PLACER, Started
from product import Keys, Server, TESSERA, environment, free_port, program, wait_for

GRACE = 5  # seconds: --resume-grace
LEASE = 60  # seconds without a word, after which a grant ends
SILENT = 45  # seconds, at most, until a connection counts as lost whose other end stands still
WAIT = SILENT + GRACE + LEASE


def marked(mark):
    """Processes that began with it in their environment."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as variables:
                if mark in variables.read().split(b"\0"):
                    pids.append(int(pid))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return pids


class Vanished(unittest.TestCase):
    def test_its_gpu_is_free_again(self):
        keys = Keys()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        policy = os.path.join(directory.name, "policy.toml")
        with open(policy, "w") as file:
            file.write('[roles]\n"name:gpu7" = "server"\n"name:alice" = "tenant"\n')
        url = f"tls://127.0.0.1:{free_port()}"
        placer = Started(os.path.join(directory.name, "placer.log"), PLACER, "--listen", url, "--store", "memory", "--policy", policy,
                         "--log", "info", *keys.options("server", "127.0.0.1,localhost"))
        self.addCleanup(placer.stop)
        server = Server("--listen", "tls://127.0.0.1:0", "--placer", url, "--resume-grace", str(GRACE), *keys.options("host", "gpu7,127.0.0.1"))
        self.addCleanup(server.stop)
        wait_for(lambda: "has joined" in placer.words(), 20, "the server's joining")
        mark = f"VANISHES={os.getpid()}"

        def run(*words, **changes):
            return [TESSERA, "run", *keys.options("client", "alice"), *words], environment(TESSERA_PLACER=url, **changes)

        words, env = run("--", program("count"), "wait", VANISHES=str(os.getpid()))
        job = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.assertEqual(job.stdout.readline(), "1\n", job.poll() is not None and job.stderr.read())
        words, env = run("--wait", "0", "--", "true")
        self.assertEqual(subprocess.run(words, env=env, capture_output=True, timeout=30).returncode, 82)
        there = marked(mark.encode())
        self.assertGreaterEqual(len(there), 3, "the job, its lease and its agent")
        for pid in there:
            os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        # Who waits gets the GPU.
        words, env = run("--wait", f"{WAIT}s", "--", program("count"))
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=WAIT + 30)
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)
        self.assertGreater(time.monotonic() - began, GRACE)
        print(f"free after {time.monotonic() - began:.1f} s")
        for pid in there:
            with contextlib.suppress(ProcessLookupError):  # one that has ended with another
                os.kill(pid, signal.SIGKILL)
        job.wait()
        for pipe in (job.stdin, job.stdout, job.stderr):
            pipe.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
