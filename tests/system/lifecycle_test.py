#!/usr/bin/env python3
"""Sessions as separate processes on the emulator: several clients, killed clients, killed workers, drained servers.

usage: lifecycle_test.py BUILD_DIRECTORY
"""

import ctypes
import os
import signal
import subprocess
import tempfile
import time
import unittest

from product import TESSERA, Server, program, wait_for


def start(server, *words):
    return subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


class Sessions(unittest.TestCase):
    mirrored = tcp = False

    def setUp(self):
        self.server = Server("--image-cache-size", "0", mirrored=self.mirrored, tcp=self.tcp)
        self.assertIn("emulated", self.server.ready)

    def tearDown(self):
        self.assertEqual(self.server.stop(), 0)

    def test_two_clients_at_once(self):
        clients = [start(self.server, program("load")) for _ in range(2)]
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
        client.kill()
        client.wait(5)
        client.communicate()
        wait_for(lambda: not self.server.workers(), 10, "the end of the killed client's worker")
        other = start(self.server, program("load"))
        self.assertEqual(other.communicate(timeout=60)[0], "ok\n")

    def test_a_killed_worker_gives_its_client_an_error_and_disturbs_nobody(self):
        client = self.spin()
        victim = self.server.workers()
        self.assertEqual(len(victim), 1)
        other = start(self.server, program("load"))
        killed_at = time.monotonic()
        os.kill(victim[0], signal.SIGKILL)
        out, err = client.communicate(timeout=10)
        self.assertLess(time.monotonic() - killed_at, 8.0)
        self.assertRegex(out, r"ended with [1-9]\d*\n")
        self.assertEqual(client.returncode, 0)
        self.assertEqual(err.count("\n"), 1, err)  # one sentence, once
        self.assertEqual(other.communicate(timeout=60)[0], "ok\n")

    def copy(self, kind):
        client = start(self.server, program("copy_loop"), kind)
        self.assertEqual(client.stdout.readline(), "copying\n")
        time.sleep(0.3)  # somewhere in the middle
        return client

    def test_a_worker_killed_in_a_copy_gives_its_client_an_error(self):
        for kind in ("ordinary", "pinned"):
            client = self.copy(kind)
            victim = self.server.workers()
            self.assertEqual(len(victim), 1)
            killed_at = time.monotonic()
            os.kill(victim[0], signal.SIGKILL)
            out, err = client.communicate(timeout=10)
            self.assertLess(time.monotonic() - killed_at, 8.0)
            self.assertRegex(out, r"ended with [1-9]\d*\n")
            self.assertEqual((client.returncode, err.count("\n")), (0, 1), err)
            wait_for(lambda: not self.server.workers(), 10, "the end of the killed worker")

    def test_a_client_killed_in_a_copy_leaves_nothing_behind(self):
        before = self.server.descriptors()
        for kind in ("ordinary", "pinned"):
            client = self.copy(kind)
            client.kill()
            client.wait(5)
            client.communicate()
            wait_for(lambda: not self.server.workers(), 10, "the end of the killed client's worker")
        wait_for(lambda: self.server.descriptors() == before, 10, "the end of what the server had for them")
        other = start(self.server, program("load"))
        self.assertEqual(other.communicate(timeout=60)[0], "ok\n")

    def test_a_hundred_short_sessions_leave_no_worker(self):
        for _ in range(5):
            clients = [start(self.server, program("load"), "--rounds", "1") for _ in range(4)]
            for client in clients:
                client.communicate(timeout=60)
        wait_for(lambda: not self.server.workers(), 10, "the end of all workers")


class SessionsOverALink(Sessions):
    """The same with two relays and a link between client and server."""

    mirrored = True


class SessionsOverTcp(Sessions):
    """The same with an agent and a gateway."""

    tcp = True


class End(unittest.TestCase):
    """What a process has left behind falls to this one, which adopts it."""

    def adopt(self, on):
        PR_SET_CHILD_SUBREAPER = 36
        self.assertEqual(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0), 0)

    def test_a_server_outlives_all_its_processes(self):
        self.adopt(True)
        self.addCleanup(self.adopt, False)
        with tempfile.TemporaryDirectory() as images:
            server = Server("--warm-workers", "2", "--image-cache", images, "--listen", "tcp://127.0.0.1:0")
            for words in (("run", "--server", server.url, "--", program("load"), "--rounds", "1"), ("status", "--server", server.url)):
                subprocess.run([TESSERA, *words], stdout=subprocess.DEVNULL, timeout=60, check=True)
            roles = {word for words in server.children_by_words().values() for word in words}
            self.assertLessEqual({"--keeper-fd", "--monitor-fd", "--worker-fd", "--ready-fd"}, roles)
            self.assertEqual(server.stop(), 0)
            with self.assertRaises(ChildProcessError):
                self.fail(f"left behind: {os.waitpid(-1, os.WNOHANG)}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
