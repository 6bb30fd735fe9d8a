#!/usr/bin/env python3
"""Ordinary programs with workers in the sandbox: they run as they do without it, and make no call that it refuses.

usage: sandbox_system_test.py BUILD_DIRECTORY
"""

import os
import pwd
import subprocess
import tempfile
import unittest

from product import DAEMON, TESSERA, Server, environment, program

PROGRAMS = ("kernels", "sharing", "registered_memory", "host_functions", "printing", "streams", "nvrtc")


def run(server, name):
    return subprocess.run([TESSERA, "run", "--quiet", "--server", server.url, "--", program(name)], capture_output=True, text=True,
                          timeout=120)


def start_nowhere(*options):
    """A server that cannot listen: how it ends says what it looked at before."""
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run([DAEMON, "--listen", f"unix:{directory}/missing/socket", "--driver", "emulator", *options],
                              capture_output=True, text=True, timeout=60, env=environment())


def complete():
    """Whether this machine can do all of it."""
    return start_nowhere("--sandbox", "require").returncode != 5


def status_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)


class Options(unittest.TestCase):
    def test_a_word_that_it_does_not_know(self):
        server = start_nowhere("--sandbox", "maybe")
        self.assertEqual(server.returncode, 2)
        self.assertIn("--sandbox takes", server.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_itself_is_no_sandbox(self):
        server = start_nowhere("--sandbox", "require", "--worker-user", "root")
        self.assertEqual(server.returncode, 5)
        self.assertIn("workers run as root", server.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_what_is_missing_is_said_at_start(self):
        server = start_nowhere("--worker-user", "nobody-of-this-name")
        self.assertEqual(server.returncode, 4)
        self.assertIn("no user 'nobody-of-this-name'", server.stderr)


@unittest.skipUnless(os.path.exists(program("kernels")), "the CUDA test programs were not built: nvcc is missing")
class Sandbox(unittest.TestCase):
    def run_all(self, server):
        for name in PROGRAMS:
            if not os.path.exists(program(name)):
                continue
            with self.subTest(program=name):
                self.assertEqual(run(server, name).returncode, 0, server.words())

    @unittest.skipUnless(complete(), "this machine cannot do all of it")
    def test_programs_run_when_it_is_required(self):
        server = Server("--sandbox", "require", log="warning")
        self.assertIn("emulated", server.ready)
        self.run_all(server)
        self.assertNotIn("sandbox", server.words())
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(complete(), "this machine cannot do all of it")
    def test_a_worker_is_in_it(self):
        server = Server("--sandbox", "require")
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("spin")], stdout=subprocess.PIPE,
                                  text=True)
        self.assertEqual(client.stdout.readline(), "spinning\n")
        worker, = server.workers()
        status = status_of(worker)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
        self.assertEqual({int(uid) for uid in status["Uid"].split()}, {user})
        self.assertEqual(int(status["CapEff"], 16), 0)
        for task in os.listdir(f"/proc/{worker}/task"):
            self.assertEqual(status_of(f"{worker}/task/{task}")["Seccomp"], "2")
        client.kill()
        client.communicate()
        server.stop()

    def test_nothing_that_it_refuses_is_needed(self):
        server = Server("--sandbox", "log", log="warning")
        self.assertIn("emulated", server.ready)
        self.run_all(server)
        self.assertNotIn("would refuse", server.words())
        self.assertEqual(server.stop(), 0)

    def test_off(self):
        server = Server("--sandbox", "off", log="warning")
        self.assertEqual(run(server, "kernels").returncode, 0)
        self.assertEqual(server.words(), "")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
