#!/usr/bin/env python3
"""Sessions whose agent's or gateway's process is killed or started anew: programs notice nothing but a pause.

usage: restart_test.py BUILD_DIRECTORY
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from product import AGENT, GATEWAY, TESSERA, Agent, Gateway, Keys, Part, Server, alive, environment, have_ucx, program, wait_for

STEPS = 5000  # of the training
SLOWLY_S = 0.3  # longer than a process that is ready has to live to count as one that goes on


def kill(part):
    victim = part.carrier()
    os.kill(victim, signal.SIGKILL)
    return victim


def begin_outage(part):
    """Nobody carries the sessions: the keeper is stopped, and has yet to learn that its child is gone."""
    victim = part.carrier()
    os.kill(part.process.pid, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)


def end_outage(part):
    os.kill(part.process.pid, signal.SIGCONT)


def kept(part):
    """How many sessions the keeper has."""
    count = 0
    for fd in os.listdir(f"/proc/{part.process.pid}/fd"):
        try:
            count += "tessera-carriage" in os.readlink(f"/proc/{part.process.pid}/fd/{fd}")
        except FileNotFoundError:
            pass
    return count


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

    def start(self, *words, url=None):
        return subprocess.Popen([TESSERA, "run", "--quiet", "--server", url or self.agent.url, "--", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment())

    def spin(self, url=None):
        client = self.start(program("spin"), url=url)
        self.assertEqual(client.stdout.readline(), "spinning\n")
        return client

    def kill_while(self, running, parts=None):
        """Kills one of them or both, again and again, while `running` does. How many it were."""
        wait_for(lambda: running.poll() is not None or all(map(kept, self.parts)), 20, "the beginning of the session")
        kills = 0
        while running.poll() is None:
            chosen = parts or self.chance.choice(([self.agent], [self.gateway], self.parts))
            for part in chosen:
                kill(part)
                kills += 1
            # From in the middle of going on to long after it.
            time.sleep(self.chance.choice((0.05, 0.4, 0.6, 1.0)) * self.chance.uniform(0.7, 1.3))
        return kills

    def kill_at_least(self, kills, *words):
        """Runs the program while they are killed, until it were so many: how long it takes is the machine's affair. Returns what
        each run printed; there is nothing on stderr."""
        printed = []
        while kills > 0:
            self.assertLess(len(printed), 20, "the program is over before anything is killed")
            client = self.start(*words)
            kills -= self.kill_while(client)
            out, err = client.communicate(timeout=200)
            self.assertEqual((client.returncode, err), (0, ""))
            printed.append(out)
        return printed


class Kills(Restart):
    def test_a_training_through_kills_is_bit_identical(self):
        undisturbed, err = self.start(program("train"), str(STEPS)).communicate(timeout=100)
        self.assertEqual(err, "")
        for out in self.kill_at_least(10, program("train"), str(STEPS)):
            self.assertEqual(out, undisturbed)

    def test_copies_of_all_kinds_that_check_every_word(self):
        self.assertEqual(set(self.kill_at_least(10, program("load"), "--rounds", "1500")), {"ok\n"})


class KillsOverTls(Restart):
    link = "tls"

    def test_copies_of_all_kinds_that_check_every_word(self):
        self.assertEqual(set(self.kill_at_least(8, program("load"), "--rounds", "1000")), {"ok\n"})


@unittest.skipUnless(have_ucx(), "UCX is not installed (libucx0)")
class KillsOverUcx(Restart):
    """The gateway's listening socket is made anew each time, at the same port."""

    link = "ucx"

    def test_copies_of_all_kinds_that_check_every_word(self):
        self.assertEqual(set(self.kill_at_least(5, program("load"), "--rounds", "900")), {"ok\n"})


class Outages(Restart):
    def test_a_program_that_ends_meanwhile_is_cleaned_up(self):
        for part in self.parts:
            client = self.spin()
            begin_outage(part)
            client.kill()
            client.communicate()
            end_outage(part)
            wait_for(lambda: not self.server.workers(), 10, "the end of the worker")

    def test_a_worker_that_ends_meanwhile_is_told(self):
        for part in self.parts:
            client = self.spin()
            begin_outage(part)
            os.kill(self.server.workers()[0], signal.SIGKILL)
            end_outage(part)
            out, err = client.communicate(timeout=20)
            self.assertRegex(out, r"ended with [1-9]\d*\n")
            self.assertRegex(err, r"^tessera[^\n]*start the program again\n$")

    def test_programs_that_come_meanwhile_wait(self):
        for part in self.parts:
            begin_outage(part)
            client = self.start(program("count"))
            time.sleep(0.3)  # it does not end by itself
            self.assertIsNone(client.poll())
            end_outage(part)
            self.assertEqual(client.communicate(timeout=20), ("1\n", ""))

    def test_nothing_is_left_of_sessions_that_are_over(self):
        before = [descriptors(part) for part in self.parts if part.carrier()]
        clients = [self.spin() for _ in range(3)]
        for part in self.parts:
            kill(part)
        for client in clients:
            client.kill()
            client.communicate()
        # A start that was on its way may have been counted, the agent's line to the process that connects may not; a session has five or more.
        wait_for(lambda: all(descriptors(part) <= then + 1 for part, then in zip(self.parts, before)), 10, "the end of what was kept")
        self.assertEqual([len(part.carriers()) for part in self.parts], [1, 1])


class Anew(Restart):
    def test_a_hang_up_signal_starts_it_anew(self):
        client = self.spin()
        for part in self.parts:
            before = part.carrier()
            part.process.send_signal(signal.SIGHUP)
            wait_for(lambda: part.carriers() not in ([], [before]), 10, "another process")
            wait_for(lambda: "goes on over a new link" in part.words(), 10, "the session")
            self.assertIn("started anew, with 1 sessions", part.words())
            self.assertNotIn("killed by signal", part.words())
        client.kill()
        client.communicate()

    def test_whoever_has_read_that_it_listens_may_send_signals(self):
        for _ in range(5):
            with tempfile.TemporaryDirectory() as directory:
                agent = Part(AGENT, "--listen", "unix:" + os.path.join(directory, "agent.sock"), "--server", self.gateway.url, "--log", "info")
                agent.process.send_signal(signal.SIGHUP)
                wait_for(lambda: "started anew" in agent.words(), 10, "the line in the log")
                self.assertEqual(agent.stop(), 0)

    def test_the_file_of_the_program_may_have_been_replaced(self):
        with tempfile.TemporaryDirectory() as directory:
            installed = os.path.join(directory, "tessera-agent")
            shutil.copy(AGENT, installed)
            url = "unix:" + os.path.join(directory, "agent.sock")
            agent = Part(installed, "--listen", url, "--server", self.gateway.url, "--log", "info")
            self.parts.append(agent)
            shutil.copy(AGENT, installed + ".new")
            os.rename(installed + ".new", installed)
            agent.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "started anew" in agent.words(), 10, "the line in the log")
            wait_for(lambda: os.path.samefile(f"/proc/{agent.carrier()}/exe", installed), 10, "the new file")

    def test_one_that_ends_again_and_again_before_it_is_ready_is_given_up(self):
        """However slowly it begins, as on a busy machine."""
        with tempfile.TemporaryDirectory() as directory:
            installed = [shutil.copy(program, directory) for program in (AGENT, GATEWAY)]
            agent_url = "unix:" + os.path.join(directory, "agent.sock")
            gateway = Part(installed[1], "--listen", "tcp://127.0.0.1:0", "--server", "unix:" + self.server.path)
            agent = Part(installed[0], "--listen", agent_url, "--server", gateway.ready.split()[3].rstrip(","))
            client = self.spin(agent_url)
            for part, path in zip((agent, gateway), installed):
                carrier = part.carrier()
                with open(path + ".new", "w") as script:
                    script.write(f"#!/bin/sh\nsleep {SLOWLY_S}\nkill -9 $$\n")
                os.chmod(path + ".new", 0o755)
                os.rename(path + ".new", path)
                os.kill(carrier, signal.SIGKILL)
            for part in agent, gateway:
                self.assertEqual(part.process.wait(60), 1)
                self.assertRegex(part.words(), r"error: the process that carries sessions was killed by signal 9 \(Killed\), 10 times in a "
                                               r"row: its 1 sessions are over; start tessera-\w+ again")
            self.assertRegex(client.communicate(timeout=10)[1], r"^tessera[^\n]*start the program again\n$")

    def test_who_keeps_takes_who_carries_along(self):
        for part in (self.gateway, self.agent):
            victim = part.carrier()
            part.process.kill()
            part.process.wait()
            wait_for(lambda: not alive(victim), 10, "the end of the process that carries sessions")
        self.parts = []

    def test_a_keeper_takes_little_memory(self):
        client = self.spin()
        for part in self.parts:
            with open(f"/proc/{part.process.pid}/smaps_rollup") as rollup:
                private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private"))
            self.assertLess(private, 4096, "KiB")
        client.kill()
        client.communicate()


if __name__ == "__main__":
    unittest.main(verbosity=2)
