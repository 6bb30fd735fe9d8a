#!/usr/bin/env python3
"""What a client can do to others once it has taken over its worker: an attacker's driver tries (tests/support/taken_over_driver.cc).

usage: taken_over_test.py BUILD_DIRECTORY
"""

import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import termios
import threading
import unittest

from product import BUILD, TESSERA, Agent, Server, alive, children, environment, program, wait_for

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

    def run(self, *lines):
        """A client whose worker tries them."""
        self.plan(lines)
        count = subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--", program("count")], capture_output=True, text=True,
                               timeout=60)
        self.plan(())
        return count

    def attempt(self, *lines):
        """How each of them ended in the worker of a new session, by its words."""
        count = self.run(*lines)
        assert count.returncode == 0, count.stderr
        outcomes = self.outcomes()
        assert outcomes[-1] == "end", outcomes
        return dict(outcome.split(": ", 1) for outcome in outcomes[:-1])

    def stop(self):
        code = self.server.stop()
        self.directory.cleanup()
        return code


class Terminal:
    """Where somebody starts a server by hand."""

    def __init__(self):
        self.master, self.slave = os.openpty()
        self.name = os.ttyname(self.slave)
        self.text = b""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while piece := os.read(self.master, 4096):
                self.text += piece
        except OSError:
            pass  # nobody holds it any more

    def sit_down(self):
        """In the process that is about to become the server."""
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        os.dup2(self.slave, 0)
        os.dup2(self.slave, 2)

    def words(self):
        return self.text.decode(errors="replace")

    def press(self, key):
        os.write(self.master, key)


def descendants(pid):
    for child in children(pid):
        yield child
        yield from descendants(child)


def files_of(pid):
    directory = f"/proc/{pid}/fd"
    if os.geteuid() != 0 and not os.access(directory, os.R_OK):
        return set()  # it hides from others of its user: what it holds is seen where root runs this
    return {os.readlink(os.path.join(directory, name)) for name in os.listdir(directory)}


def stands_apart(pid, names):
    """It holds none of these files and has a session of its own, or has ended."""
    try:
        return not files_of(pid) & names and os.getsid(pid) == pid
    except (FileNotFoundError, ProcessLookupError):  # it closed a file meanwhile, or has ended
        return not os.path.exists(f"/proc/{pid}")


def text_of(path):
    with open(path) as file:
        return file.read()


class TakenOver(unittest.TestCase):
    def serve(self, *options, **more):
        attacker = Attacker(*options, **more)
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
        # The attacker's own worker ends a moment after its client.
        wait_for(lambda: attacker.server.workers() == [worker], 10, "the neighbour's worker being alone")

    def test_a_server_of_the_same_user(self):
        attacker = self.serve("--worker-user", pwd.getpwuid(os.geteuid()).pw_name)
        tesserad = attacker.server.process.pid
        self.check_refused(attacker.attempt(f"all {tesserad}"))

    def test_the_terminal_of_whoever_started_the_server(self):
        terminal = Terminal()
        attacker = self.serve(before=terminal.sit_down)
        outcomes = attacker.attempt("hold-terminal", "type-into-terminal")
        for words, outcome in outcomes.items():
            with self.subTest(attempt=words):
                self.assertRegex(outcome, "^refused: ")
        # Without a sandbox neither: it has no such descriptor.
        attacker = self.serve("--sandbox", "off", before=Terminal().sit_down)
        self.assertRegex(attacker.attempt("type-into-terminal")["type-into-terminal"], "^refused: ")

    def test_the_file_of_the_log(self):
        attacker = self.serve()
        inode = os.stat(attacker.server.log.name).st_ino
        self.assertRegex(attacker.attempt(f"truncate-file {inode}").popitem()[1], "^refused: ")

    def test_last_words_reach_the_log(self):
        attacker = self.serve()
        attacker.run("die-with-last-words")
        wait_for(lambda: "was killed by signal 6" in attacker.server.words(), 10, "the worker's end")
        words = attacker.server.words()
        said = re.search("tesserad session ([0-9]+): these are my last words\n", words)
        self.assertIsNotNone(said, words)
        self.assertLess(said.end(), words.index(f"session {said[1]} of pid"))

    def test_the_log_itself(self):
        attacker = self.serve()
        self.assertEqual(attacker.attempt("flood-log"), {"flood-log": "succeeded"})
        words = attacker.server.words()
        self.assertLess(len(words), 2 << 20)
        self.assertIn("writes too much", words)
        self.assertEqual(re.findall("(?m)^(?:[0-9TZ:.-]+ )?tesserad\\[1\\].*", words), [])
        self.assertRegex(words, "(?m)tesserad session [0-9]+: tesserad\\[1\\]: error: a lie$")


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

    def test_one_that_works_in_no_sandbox(self):
        attacker = self.serve(first=("needs to write",))
        self.assertRegex(attacker.server.words(), "warning: the sandbox of workers is not complete: the driver .*driver.so does not do in the sandbox")
        attacker.server.stop()
        attacker = self.serve("--sandbox", "require", first=("needs to write",))
        self.assertEqual(attacker.server.process.wait(20), 5)
        self.assertRegex(attacker.server.words(), "no sandbox for workers: the driver .* does not do in the sandbox of workers .*cuInit fails with 304")
        attacker.server.discard()

    def test_one_that_works_nowhere(self):
        attacker = self.serve(first=("is full",))
        sentence = "the driver .*driver.so does not work here, in a sandbox or without one .*cuMemAlloc fails with 2.*nvidia-smi"
        self.assertRegex(attacker.server.words(), "error: no session will work: " + sentence)
        attacker.server.stop()
        # Nothing of that is remembered.
        attacker.plan(())
        server = Server("--sandbox", "require", driver=attacker.driver, env=self.env, log="warning")
        self.assertTrue(server.ready, server.words())
        server.stop()
        attacker = self.serve("--sandbox", "require", first=("is full",))
        self.assertEqual(attacker.server.process.wait(20), 3)
        self.assertRegex(attacker.server.words(), "tesserad: no device to serve: " + sentence)
        self.assertNotIn("no sandbox", attacker.server.words())
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


class Children(unittest.TestCase):
    """Whatever a server or an agent starts, taken over or not."""

    def check_apart(self, pid, *names):
        """Its descendants hold none of these files, and each has a session of its own."""
        found = list(descendants(pid))
        for child in found:
            with self.subTest(child=child):
                # Between fork and exec it has what its parent has.
                wait_for(lambda: stands_apart(child, set(names)), 10, "a child that stands apart")
        return found

    def start_server(self, terminal):
        server = Server("--listen", "tcp://127.0.0.1:0", before=terminal.sit_down)
        self.addCleanup(server.discard)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        subprocess.run([TESSERA, "status", "--server", server.url, "--output", "json"], check=True, stdout=subprocess.DEVNULL, env=environment())
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("spin")], stdout=subprocess.PIPE, text=True)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        self.assertEqual(client.stdout.readline(), "spinning\n")
        return server

    def test_have_no_terminal_and_end_with_its_ctrl_c(self):
        terminal = Terminal()
        server = self.start_server(terminal)
        found = self.check_apart(server.process.pid, terminal.name)
        # Gateway, its carrier, broker, images, monitor and a worker.
        self.assertGreaterEqual(len(found), 6)
        terminal.press(b"\x03")
        self.assertEqual(server.process.wait(20), 0)
        wait_for(lambda: not any(map(alive, found)), 10, "the end of all children")
        self.assertIn("tesserad", terminal.words())

    def test_end_when_the_server_is_killed(self):
        terminal = Terminal()
        server = self.start_server(terminal)
        found = list(descendants(server.process.pid))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        wait_for(lambda: not any(map(alive, found)), 10, "the end of all children")

    def test_an_agent_gets_no_rights_and_leaves_no_memory(self):
        agent = Agent("tcp://127.0.0.1:1")
        self.addCleanup(agent.stop)
        for pid in agent.pids():
            with self.subTest(pid=pid):
                # It does so after its start.
                wait_for(lambda: "NoNewPrivs:\t1\n" in text_of(f"/proc/{pid}/status"), 10, "an agent that has given up its rights")
                wait_for(lambda: re.search("Max core file size +0 +0 ", text_of(f"/proc/{pid}/limits")), 10, "an agent without core files")
                if os.geteuid() != 0:
                    self.assertRaises(PermissionError, text_of, f"/proc/{pid}/environ")

    def test_of_an_agent_hold_nothing_of_its_log(self):
        agent = Agent("tcp://127.0.0.1:1")
        self.addCleanup(agent.stop)
        agent.carrier()
        wait_for(lambda: len(children(agent.process.pid)) == 2, 10, "a process that connects")
        self.assertEqual(len(self.check_apart(agent.process.pid, agent.log.name)), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
