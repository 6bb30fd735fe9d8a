#!/usr/bin/env python3
"""Sessions whose agent's or gateway's process is killed or started anew: programs notice nothing but a pause.

usage: restart_test.py BUILD_DIRECTORY
"""

import os
import random
import re
import signal
import subprocess
import time
import unittest

from product import TESSERA, Agent, Gateway, Keys, Server, alive, environment, program, wait_for

STEPS = 9000  # of the training


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listed:
            return [int(child) for child in listed.read().split()]
    except FileNotFoundError:
        return []


def carrier(part):
    """The process that carries the sessions of an agent or a gateway; it may be about to be started."""
    found = []

    def look():
        found[:] = children(part.process.pid)
        return len(found) == 1

    wait_for(look, 10, "a process that carries sessions")
    return found[0]


def kill(part):
    victim = carrier(part)
    os.kill(victim, signal.SIGKILL)
    return victim


def descriptors(part):
    return len(os.listdir(f"/proc/{part.process.pid}/fd"))


class Restart(unittest.TestCase):
    link = "tcp"

    def setUp(self):
        self.keys = Keys() if self.link == "tls" else None
        self.server = Server()
        keys = self.keys.options("server", "localhost,127.0.0.1") if self.keys else []
        self.gateway = Gateway(self.server.path, *keys, listen=self.link + "://127.0.0.1:0")
        self.agent = Agent(self.gateway.url, *(self.keys.options("client", "alice") if self.keys else []))
        self.parts = [self.agent, self.gateway]
        self.chance = random.Random(5)
        self.addCleanup(self.check_all_ended)

    def check_all_ended(self):
        wait_for(lambda: not self.server.workers(), 10, "the end of all workers")
        for part in self.parts:
            self.assertEqual(part.stop(), 0)
        self.assertEqual(self.server.stop(), 0)

    def start(self, *words):
        return subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.agent.url, "--", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment())

    def spin(self):
        client = self.start(program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        return client

    def kill_while(self, running, parts=None):
        """Kills one of them or both, again and again, while `running` does. How many it were."""
        kills = 0
        while running.poll() is None:
            chosen = parts or self.chance.choice(([self.agent], [self.gateway], self.parts))
            for part in chosen:
                kill(part)
                kills += 1
            # From in the middle of going on to long after it.
            time.sleep(self.chance.choice((0.05, 0.4, 0.6, 1.0)) * self.chance.uniform(0.7, 1.3))
        return kills


class Kills(Restart):
    def test_a_training_through_kills_is_bit_identical(self):
        undisturbed, err = self.start(program("train"), str(STEPS)).communicate(timeout=100)
        self.assertEqual(err, "")
        client = self.start(program("train"), str(STEPS))
        self.assertEqual(client.stdout.readline(), "training\n")
        kills = self.kill_while(client)
        out, err = client.communicate(timeout=100)
        self.assertEqual(("training\n" + out, err), (undisturbed, ""))
        self.assertGreaterEqual(kills, 30)

    def test_copies_of_all_kinds_that_check_every_word(self):
        client = self.start(program("load"), "--rounds", "3500")
        kills = self.kill_while(client)
        out, err = client.communicate(timeout=200)
        self.assertEqual((out, err), ("ok\n", ""))
        self.assertGreaterEqual(kills, 20)


class KillsOverTls(Restart):
    link = "tls"

    def test_copies_of_all_kinds_that_check_every_word(self):
        client = self.start(program("load"), "--rounds", "1800")
        kills = self.kill_while(client)
        out, err = client.communicate(timeout=200)
        self.assertEqual((out, err), ("ok\n", ""))
        self.assertGreaterEqual(kills, 15)


if __name__ == "__main__":
    unittest.main(verbosity=2)
