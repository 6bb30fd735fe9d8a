#!/usr/bin/env python3
"""The file of options of a tesserad that runs, read again at SIGHUP: what changes at once, what says that it needs a restart, and that a
broken file changes nothing.

usage: reload_test.py BUILD_DIRECTORY
"""

import fcntl
import json
import os
import pty
import signal
import subprocess
import tempfile
import termios
import unittest

import users
from product import DAEMON, HAS_CONTROL_API, TESSERA, Server, Session, end_with_test, environment, program, the_server, wait_for, words_of

FULL = 83


class Reload(unittest.TestCase):
    def setUp(self):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        os.mkdir(f"{directory}/tessera")
        self.file = f"{directory}/tessera/tesserad.toml"
        self.env = environment(XDG_CONFIG_HOME=directory)

    def write(self, text):
        """As editors do it: the server never sees a part."""
        with open(self.file + ".new", "w") as out:
            out.write(text)
        os.rename(self.file + ".new", self.file)

    def serve(self, *options, log="info"):
        server = Server(*options, env=self.env, log=log)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        self.assertTrue(server.ready, server.words())
        return server

    def reload(self, server, sentence):
        """What it says about the file is `sentence`, for the first time."""
        self.assertNotIn(sentence, server.words())
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: sentence in server.words(), 20, f"'{sentence}'")

    def told(self, server):
        done = subprocess.run([TESSERA, "status", "--server", server.url, "-o", "json"], capture_output=True, text=True, timeout=60, env=environment())
        return the_server(done.stdout)

    def places(self, server):
        return self.told(server)["sessions_max"]

    def run_count(self, server):
        done = subprocess.run([TESSERA, "run", "-q", "--server", server.url, "--", program("count")], capture_output=True, text=True, timeout=60,
                              env=environment())
        return done.returncode

    def test_sessions_go_on_and_there_are_more(self):
        self.write("max-sessions = 1\nstart-wait = 0\n")
        server = self.serve()
        holder = Session(server.url)
        self.assertEqual(self.run_count(server), FULL)
        self.write("max-sessions = 2\nstart-wait = 0\n")
        self.reload(server, "options that are in force from now on: max-sessions = 2")
        self.assertEqual((self.places(server), self.run_count(server)), (2, 0))
        wait_for(lambda: self.told(server)["sessions"] == 1, 20, "the end of the session")
        # Fewer than there are: those that are there stay, and none comes.
        other = Session(server.url)
        self.write("max-sessions = 1\nstart-wait = 0\n")
        self.reload(server, "from now on: max-sessions = 1")
        self.assertEqual(self.run_count(server), FULL)
        for session in (other, holder):
            self.assertEqual(session.end(), 0)
        wait_for(lambda: self.run_count(server) == 0, 20, "a place")

    @unittest.skipUnless(HAS_CONTROL_API and users.can_be_another(), "needs a control API, to be root, and a build that others can read")
    def test_another_administrator(self):
        self.write("")
        server = self.serve("--socket-mode", "666")
        os.chmod(server.directory.name, 0o755)
        broker = server.broker()

        def code_of_alice(*words):
            return subprocess.run([TESSERA, "vgpu", *words, "--server", server.url], capture_output=True, timeout=60, cwd="/", env=environment(),
                                  preexec_fn=users.become(users.ALICE)).returncode
        holder = Session(server.url)
        self.assertEqual(code_of_alice("create", "a", "--request", "0.1"), 73)
        self.write(f'admin = ["root", "uid:{users.ALICE}"]\n')
        self.reload(server, f"from now on: admin = root uid:{users.ALICE}")
        # The broker is another one, which knows of what there was.
        wait_for(lambda: code_of_alice("create", "a", "--request", "0.1") == 0, 20, "a vGPU of the new administrator")
        self.assertNotIn(server.broker(), (None, broker))
        self.assertIn("the broker is started anew, with options that have changed", server.words())
        self.write("")
        self.reload(server, "from now on: admin = none")
        wait_for(lambda: code_of_alice("resize", "a", "--request", "0.2") == 73, 20, "the end of his rights")
        told = subprocess.run([TESSERA, "vgpu", "list", "--server", server.url, "-o", "json"], capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual([(vgpu["name"], vgpu["request"]) for vgpu in json.loads(told.stdout)["vgpus"]], [("a", 0.1)])
        self.assertEqual(holder.end(), 0)
        self.assertNotIn("error: ", server.words())

    def test_what_needs_a_restart_is_said(self):
        self.write("start-wait = 1\n")
        server = self.serve()
        self.write('start-wait = 2\naudit = "off"\nallow = ["alice"]\nhello-timeout = 20\n')
        self.reload(server, "options that need a restart of the server to be in force: allow, hello-timeout")
        self.assertIn("in force from now on: audit = off, start-wait = 2", server.words())
        # What waits for a restart is said again, what is in force is not.
        self.write('start-wait = 2\naudit = "off"\nallow = ["bob"]\n')
        self.reload(server, "to be in force: allow\n")
        self.assertEqual(server.words().count("in force from now on"), 1)
        self.write('start-wait = 2\naudit = "off"\n')
        self.reload(server, "the options are as they were")

    def test_broken_files_change_nothing(self):
        self.write("max-sessions = 3\n")
        server = self.serve()
        for text, sentence in (("max-sessions = 4\nmax-session = 5\n", "line 2: there is no key 'max-session': the nearest is 'max-sessions'"),
                               ("max-sessions = 5000\n", "line 1: the value of the key 'max-sessions' is none: "),
                               ('max-sessions = 4\nallow = ["alice",\n', "line 2: the list of the key 'allow' has no end"),
                               ('max-sessions = 4\n\naudit = "perhaps"\n', "line 3: --audit takes off, log or end, not 'perhaps'"),
                               ('max-sessions = 4\nsocket-group = "no-such-group"\n', "line 2: there is no group 'no-such-group'"),
                               ("max-sessions = 4\n\n\nmax-sess", "line 4: ")):
            with self.subTest(text):
                self.write(text)
                self.reload(server, f"the options stay as they are: {self.file}, {sentence}")
                self.assertEqual(self.places(server), 3)
        self.write("max-sessions = 4\n")
        os.chmod(self.file, 0o666)
        self.reload(server, f"the options stay as they are: the file {self.file} can be changed by everybody: chmod o-w")
        self.assertEqual(self.places(server), 3)
        os.chmod(self.file, 0o644)
        self.reload(server, "from now on: max-sessions = 4")

    def test_the_command_line_counts_instead(self):
        server = self.serve("--max-sessions", "3")
        # A file that was not there before.
        self.write("max-sessions = 5\ngrace = 7\nstart-wait = 8\n")
        self.reload(server, "from now on: start-wait = 8\n")
        self.assertEqual(self.places(server), 3)

    def test_the_log_changes(self):
        self.write('start-wait = 1\n')
        file = self.file
        self.file = file + ".other"
        self.write('log = "warning"\n')
        # Server names a level itself, which would count.
        process = subprocess.Popen([DAEMON, "--config", self.file, "--listen", f"unix:{file}.sock", "--driver", "emulator", "--grace", "0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        end_with_test(process)
        self.addCleanup(process.communicate, timeout=20)
        self.addCleanup(process.terminate)
        self.assertIn("listening", process.stdout.readline())
        self.write('log = "info"\n')
        process.send_signal(signal.SIGHUP)
        self.assertIn("from now on: log = info", process.stderr.readline())
        # A file that is named has to be there.
        os.remove(self.file)
        process.send_signal(signal.SIGHUP)
        self.assertIn(f"the options stay as they are: cannot read {self.file}", process.stderr.readline())

    def test_it_ends_with_its_terminal(self):
        """A shell tells its jobs of the end with the same signal, and from a process as an administrator does."""
        master, slave = pty.openpty()

        def lead():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        words = f"{DAEMON} --listen unix:{self.file}.sock --driver emulator --grace 0"
        script = f"set -m; trap 'kill -HUP $job' HUP; {words} & job=$!; echo $job; while kill -0 $job; do wait $job; done"
        shell = subprocess.Popen(["bash", "-c", script], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                 env=self.env, preexec_fn=lead)
        end_with_test(shell)
        self.addCleanup(shell.stdout.close)
        os.close(slave)
        job = int(shell.stdout.readline())
        self.addCleanup(lambda: DAEMON in words_of(job) and os.kill(job, signal.SIGKILL))
        self.assertIn("listening", shell.stdout.readline())
        os.kill(job, signal.SIGHUP)  # of an administrator: it goes on
        subprocess.run([TESSERA, "status", "--server", f"unix:{self.file}.sock"], check=True, capture_output=True, timeout=60, env=environment())
        os.close(master)
        shell.wait(30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
