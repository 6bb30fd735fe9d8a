#!/usr/bin/env python3
"""Sessions as separate processes on the emulator: several clients, killed clients, killed workers, drained servers, bad input.

usage: lifecycle_test.py BUILD_DIRECTORY
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAMS = os.path.join(BUILD, "tests/system/programs")
TESSERA = os.path.join(BUILD, "bin/tessera")
DAEMON = os.path.join(BUILD, "bin/tesserad")


def wait_for(condition, seconds, what):
    """Polls until condition() is true; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


class Server:
    """A tesserad of its own on the emulator."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "server.sock")
        self.url = "unix:" + self.path
        self.log = open(os.path.join(self.directory.name, "log"), "w+")
        self.process = subprocess.Popen([DAEMON, "--listen", self.url, "--driver", "emulator", "--grace", "0", "--log", "info"],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ready = self.process.stdout.readline()

    def workers(self):
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(pid) for pid in out.split()]

    def stop(self):
        self.process.terminate()
        code = self.process.wait(20)
        self.process.stdout.close()
        self.log.close()
        self.directory.cleanup()
        return code


def start(server, *words):
    return subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def program(name):
    return os.path.join(PROGRAMS, name)


@unittest.skipUnless(os.path.exists(program("spin")), "the CUDA test programs were not built: nvcc is missing")
class Sessions(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.assertIn("emulated", self.server.ready)

    def tearDown(self):
        self.assertEqual(self.server.stop(), 0)

    def test_two_clients_at_once(self):
        clients = [start(self.server, program("kernels")) for _ in range(2)]
        for client in clients:
            out, err = client.communicate(timeout=60)
            self.assertEqual((client.returncode, out), (0, "ok\n"), err)

    def spin(self):
        client = start(self.server, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        return client

    def test_a_client_killed_in_a_kernel_leaves_nothing_behind(self):
        client = self.spin()
        self.assertEqual(len(self.server.workers()), 1)
        subprocess.run(["pkill", "-KILL", "-P", str(client.pid)], check=True)
        client.wait(5)
        client.communicate()
        wait_for(lambda: not self.server.workers(), 5, "the end of the killed client's worker")
        other = start(self.server, program("streams"))
        self.assertEqual(other.communicate(timeout=60)[0], "ok\n")

    def test_a_killed_worker_gives_its_client_an_error_and_disturbs_nobody(self):
        client = self.spin()
        victim = self.server.workers()
        self.assertEqual(len(victim), 1)
        other = start(self.server, program("streams"))
        killed_at = time.monotonic()
        os.kill(victim[0], signal.SIGKILL)
        out, err = client.communicate(timeout=10)
        self.assertLess(time.monotonic() - killed_at, 2.0)
        self.assertRegex(out, r"ended with [1-9]\d*\n")
        self.assertEqual(client.returncode, 0)
        self.assertEqual(err.count("\n"), 1, err)  # one sentence, once
        self.assertEqual(other.communicate(timeout=60)[0], "ok\n")

    def test_a_hundred_short_sessions_leave_no_worker(self):
        for _ in range(5):
            clients = [start(self.server, program("errors")) for _ in range(4)]
            for client in clients:
                client.communicate(timeout=60)
        wait_for(lambda: not self.server.workers(), 5, "the end of all workers")


class BadInput(unittest.TestCase):
    """Input, what the user sees, exit code."""

    def run_tessera(self, *words, env=None):
        result = subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=30,
                                env={**os.environ, **(env or {})})
        return result.returncode, result.stderr

    def check(self, words, code, sentence, env=None):
        actual, stderr = self.run_tessera(*words, env=env)
        self.assertEqual(actual, code, stderr)
        self.assertRegex(stderr, sentence)
        return stderr

    def one_sentence(self, *arguments, **options):
        stderr = self.check(*arguments, **options)
        self.assertEqual(stderr.count("\n"), 1, stderr)

    def test_malformed_option(self):
        self.check(["run", "--no-such-option", "--", "true"], 2, "no-such-option")

    def test_no_command(self):
        self.check(["run"], 2, "command")

    def test_unknown_scheme(self):
        self.one_sentence(["run", "--server", "gopher://x", "--", "true"], 71, "gopher://x.*unix:PATH")

    def test_no_socket(self):
        self.one_sentence(["run", "--server", "unix:/nonexistent/socket", "--", "true"], 72, "no socket at /nonexistent/socket")

    def test_nobody_listens(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "stale.sock")
            stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stale.bind(path)
            stale.close()
            self.one_sentence(["run", "--server", "unix:" + path, "--", "true"], 72, "nobody listens")

    def test_command_not_found(self):
        self.check(["run", "--quiet", "--driver", "emulator", "--", "/nonexistent/program"], 127, "/nonexistent/program")

    def test_command_not_executable(self):
        self.check(["run", "--quiet", "--driver", "emulator", "--", "/etc"], 126, "/etc")

    def test_exit_code_and_signal_of_the_program(self):
        self.assertEqual(self.run_tessera("run", "--quiet", "--driver", "emulator", "--", "sh", "-c", "exit 42")[0], 42)
        self.assertEqual(self.run_tessera("run", "--quiet", "--driver", "emulator", "--", "sh", "-c", "kill -9 $$")[0], 137)

    def test_says_which_gpu(self):
        code, stderr = self.run_tessera("run", "--driver", "emulator", "--", "true")
        self.assertEqual(code, 0)
        self.assertRegex(stderr, "private server.*emulated")

    @unittest.skipUnless(os.path.exists(program("errors")), "the CUDA test programs were not built: nvcc is missing")
    def test_stub_without_server(self):
        env = {**os.environ, "LD_LIBRARY_PATH": os.path.join(BUILD, "lib/client")}
        env.pop("TESSERA_SERVER", None)
        for server, sentence in ((None, "TESSERA_SERVER"), ("unix:/nonexistent/socket", "/nonexistent/socket"),
                                 ("gopher://x", "gopher")):
            if server:
                env["TESSERA_SERVER"] = server
            result = subprocess.run([program("errors")], capture_output=True, text=True, timeout=30, env=env)
            self.assertNotEqual(result.returncode, 0)
            ours = [line for line in result.stderr.splitlines() if "tessera" in line]
            self.assertEqual(len(ours), 1, result.stderr)
            self.assertIn(sentence, ours[0])

    def test_help_and_version(self):
        for words in (["--help"], ["--version"], ["run", "--help"]):
            self.assertEqual(self.run_tessera(*words)[0], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
