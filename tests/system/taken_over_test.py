#!/usr/bin/env python3
"""What a client can do to others once it has taken over its worker: an attacker's driver tries (tests/support/taken_over_driver.cc).

usage: taken_over_test.py BUILD_DIRECTORY
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

from product import BUILD, TESSERA, Server, environment, program

# Calls that reach a process by its number.
BY_NUMBER = ("kill", "pidfd_send_signal", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "setpriority", "ioprio_set",
             "migrate_pages", "move_pages", "prlimit64")


class Attacker:
    """A server whose driver is the attacker's. `options` are tesserad's; its workers try what attempt() is told, and whatever
    loads the driver first what `first` says."""

    def __init__(self, *options, first=(), **settings):
        self.directory = tempfile.TemporaryDirectory()
        self.driver = os.path.join(self.directory.name, "driver.so")
        shutil.copy(os.path.join(BUILD, "tests/libtaken-over-driver.so"), self.driver)
        self.plan(first)
        self.server = Server(*options, driver=self.driver, log="warning", **settings)

    def plan(self, lines):
        with open(self.driver + ".attempts", "w") as attempts:
            attempts.writelines(line + "\n" for line in lines)

    def outcomes(self):
        """Of all that was tried since they were last asked for, in order."""
        with open(self.driver + ".outcomes") as written:
            outcomes = [line.rstrip("\n").split(" ", 1)[1] for line in written]
        os.unlink(self.driver + ".outcomes")
        return outcomes

    def start_client(self):
        """A program that works until it is ended, when its session has begun."""
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.server.url, "--", program("spin")], stdout=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "spinning\n"
        return client

    def attempt(self, *lines):
        """How each of them ended in the worker of a new session, by its words."""
        self.plan(lines)
        count = subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--", program("count")], capture_output=True, text=True,
                               timeout=60)
        self.plan(())
        assert count.returncode == 0, count.stderr
        outcomes = self.outcomes()
        assert outcomes[-1] == "end", outcomes
        return dict(outcome.split(": ", 1) for outcome in outcomes[:-1])

    def stop(self):
        code = self.server.stop()
        self.directory.cleanup()
        return code


class TakenOver(unittest.TestCase):
    def serve(self, *options):
        attacker = Attacker(*options)
        self.addCleanup(attacker.stop)
        return attacker

    def victim(self, attacker):
        """The worker of another client."""
        client = attacker.start_client()
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        worker, = attacker.server.workers()
        return worker

    def check_refused(self, outcomes):
        self.assertGreater(len(outcomes), len(BY_NUMBER))
        for words, outcome in outcomes.items():
            with self.subTest(attempt=words):
                self.assertEqual(outcome, "refused: Operation not permitted")

    def test_without_a_sandbox_it_succeeds(self):
        attacker = self.serve("--sandbox", "off")
        worker = self.victim(attacker)
        for words, outcome in attacker.attempt(*(f"{call} {worker}" for call in BY_NUMBER)).items():
            with self.subTest(attempt=words):
                self.assertEqual(outcome, "succeeded")

    def test_its_neighbours_worker(self):
        attacker = self.serve()
        worker = self.victim(attacker)
        self.check_refused(attacker.attempt(f"all {worker}"))
        self.assertEqual(attacker.server.workers(), [worker])

    def test_a_server_of_the_same_user(self):
        attacker = self.serve("--worker-user", pwd.getpwuid(os.geteuid()).pw_name)
        tesserad = attacker.server.process.pid
        self.check_refused(attacker.attempt(f"all {tesserad}"))


class DriverThatNeedsMore(unittest.TestCase):
    """A driver of a later release makes a call that no list of the filter has (inotify_init1, in the place of that)."""

    NEEDS = ("needs inotify",)

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.env = environment(XDG_CACHE_HOME=directory.name)

    def serve(self, *options, first=NEEDS):
        attacker = Attacker(*options, first=first, env=self.env)
        self.addCleanup(attacker.directory.cleanup)
        return attacker

    def test_it_gets_the_list_of_those_refused(self):
        attacker = self.serve()
        self.addCleanup(attacker.server.stop)
        # Of the probe, and of the trials under either list.
        self.assertEqual([outcome for outcome in attacker.outcomes() if outcome != "end"],
                         ["needs inotify: succeeded", "needs inotify: refused", "needs inotify: succeeded"])
        self.assertRegex(attacker.server.words(), "warning: the sandbox of workers is not complete: the driver .*driver.so makes system calls that")
        self.assertIn("cuInit fails with 304", attacker.server.words())
        outcomes = attacker.attempt(*self.NEEDS, "all 1")
        self.assertEqual(outcomes.pop("needs inotify"), "succeeded")
        for call in (*BY_NUMBER, "shmget", "socket-raw", "socketpair-datagram", "userfaultfd", "fchmodat2"):
            self.assertEqual(outcomes[call + " 1"], "refused: Operation not permitted", call)

    def test_required_it_is_no_server(self):
        attacker = self.serve("--sandbox", "require")
        self.assertEqual(attacker.server.process.wait(20), 5)
        self.assertIn("makes system calls that the filter of workers does not let through", attacker.server.words())
        attacker.server.discard()

    def test_a_driver_is_tried_once(self):
        attacker = self.serve(first=())
        attacker.server.stop()
        # The same file, and what it needs now is not found out.
        attacker.plan(self.NEEDS)
        for changed in (False, True):
            if changed:
                os.utime(attacker.driver)
            server = Server(driver=attacker.driver, env=self.env, log="warning")
            self.assertEqual("makes system calls" in server.words(), changed)
            server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
