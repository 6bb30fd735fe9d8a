#!/usr/bin/env python3
"""Ordinary programs with workers in the sandbox: they run as they do without it, and make no call that it refuses.

usage: sandbox_system_test.py BUILD_DIRECTORY
"""

import glob
import os
import pwd
import signal
import subprocess
import tempfile
import unittest

from product import BUILD, DAEMON, TESSERA, Gateway, Keys, Server, alive, children, environment, program, status_of, uids_of, wait_for
from users import ALL, SETGID, SETUID, SYS_ADMIN, in_user_namespace, without

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


class Options(unittest.TestCase):
    def test_what_is_in_force_is_told(self):
        told = subprocess.run([DAEMON, "--check-sandbox"], capture_output=True, text=True, timeout=60)
        self.assertEqual(told.returncode, 0 if complete() else 5, told.stderr)
        lines = told.stdout.splitlines()
        self.assertRegex(lines[0], "^(user nobody|the server's user)")
        self.assertEqual(len(lines) == 1, complete())
        for line in lines[1:]:
            self.assertTrue(line.startswith("missing: "), line)
        if os.geteuid() == 0:
            told = subprocess.run([DAEMON, "--check-sandbox", "--worker-user", "root"], capture_output=True, text=True, timeout=60)
            self.assertEqual(told.returncode, 5)
            self.assertIn("missing: workers run as root", told.stdout)

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


@unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, on a machine that can do all of it")
class RootWithLess(unittest.TestCase):
    """Root of containers: what it may not do is left out of the sandbox, and told."""

    LESS = {"no other user": without(SETUID, SETGID), "no other groups": without(SETGID), "nothing": without(*ALL),
            "a user namespace": in_user_namespace, "no mounts": without(SYS_ADMIN)}

    def check(self, before, user, gaps):
        told = subprocess.run([DAEMON, "--check-sandbox"], capture_output=True, text=True, timeout=60, preexec_fn=before)
        self.assertTrue(told.stdout.startswith(user + ", "), told.stdout)
        missing = [line for line in told.stdout.splitlines() if line.startswith("missing: ")]
        self.assertEqual(len(missing), len(gaps), told.stdout)
        for line, gap in zip(missing, gaps):
            self.assertIn(gap, line)
        self.assertEqual(told.returncode, 5 if gaps else 0)
        with tempfile.TemporaryDirectory() as directory:
            required = subprocess.run([DAEMON, "--listen", f"unix:{directory}/missing/socket", "--driver", "emulator", "--sandbox", "require"],
                                      capture_output=True, text=True, timeout=60, env=environment(), preexec_fn=before)
            self.assertEqual(required.returncode == 5, bool(gaps), required.stderr)
        server = Server(before=before, log="warning")
        self.addCleanup(server.stop)
        for gap in gaps:
            self.assertIn("the sandbox of workers is not complete: ", server.words())
            self.assertIn(gap, server.words())
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("spin")], stdout=subprocess.PIPE, text=True)
        self.assertEqual(client.stdout.readline(), "spinning\n", server.words())
        # What was told is so.
        worker, = server.workers()
        status = status_of(worker)
        self.assertEqual(int(status["CapEff"], 16) | int(status["CapPrm"], 16), 0)
        self.assertEqual(status["Seccomp"], "2")
        self.assertEqual(uids_of(worker), {0 if user.startswith("root") else pwd.getpwnam("nobody").pw_uid})
        self.assertEqual("a private root" in told.stdout, os.readlink(f"/proc/{worker}/ns/mnt") != os.readlink("/proc/self/ns/mnt"))
        client.kill()
        client.communicate()

    def test_each(self):
        as_root = ("root without capabilities", ["does not let this process become the user nobody"])
        for less, before in self.LESS.items():
            with self.subTest(root_with=less):
                user, gaps = ("user nobody", []) if less == "no mounts" else as_root
                self.check(before, user, gaps + ["they have no root of their own"] if less == "nothing" else gaps)


@unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, on a machine that can do all of it")
class Gateways(unittest.TestCase):
    """The process that carries sessions is in a sandbox; the one that keeps them reads files and connects for it."""

    def count(self, url, **variables):
        done = subprocess.run([TESSERA, "run", "--quiet", "--server", url, "--", program("count")], capture_output=True, text=True, timeout=60,
                              env=environment(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)

    def check(self, gateway):
        """Its carrier, in its sandbox."""
        wait_for(lambda: len(list(children(gateway))) == 1, 10, "a process that carries sessions")
        carrier, = children(gateway)
        wait_for(lambda: status_of(carrier)["Seccomp"] == "2", 10, "a gateway in its sandbox")
        status = status_of(carrier)
        self.assertEqual(uids_of(carrier), {65523})
        self.assertEqual(status["Groups"].split(), [])
        self.assertEqual([int(status[name], 16) for name in ("CapEff", "CapPrm")], [0, 0])
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertFalse(os.path.exists(f"/proc/{carrier}/root/etc"))
        return carrier

    def test_keys_are_read_again_and_sessions_come_after_a_crash(self):
        keys = Keys()
        server = Server("--sandbox", "require", "--listen", "tls://127.0.0.1:0", *keys.options("server", "localhost,127.0.0.1"), log="info")
        self.addCleanup(server.stop)
        url = server.ready.split(" and ")[1].split(",")[0]
        client = keys.environment("client", "laptop")
        gateway, = server.gateways()
        first = self.check(gateway)
        self.count(url, **client)
        keys.make("server", "localhost,127.0.0.1", "--authority", keys.authority, "--force")
        self.count(url, **client)
        wait_for(lambda: "read the certificate" in server.words(), 10, "the new certificate")
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: first not in children(gateway), 10, "the end of the process that carried sessions")
        second = self.check(gateway)
        self.count(url, **client)
        os.kill(gateway, signal.SIGHUP)
        wait_for(lambda: second not in children(gateway), 10, "the end of the process that carried sessions")
        self.check(gateway)
        self.count(url, **client)
        self.assertNotIn("goes on with the certificate as it was", server.words())

    def test_one_that_was_started_by_hand(self):
        server = Server()
        self.addCleanup(server.stop)
        for options, confined in (((), True), (("--sandbox", "off"), False)):
            gateway = Gateway(server.path, *options)
            if confined:
                self.check(gateway.process.pid)
            else:
                self.assertEqual(uids_of(gateway.carrier()), {0})
            self.count(gateway.url)
            self.assertEqual(gateway.stop(), 0)

    def test_nothing_that_it_refuses_is_needed(self):
        server = Server("--sandbox", "log", "--listen", "tcp://127.0.0.1:0", log="warning")
        self.addCleanup(server.stop)
        self.count(server.ready.split(" and ")[1].split(",")[0])
        self.assertNotIn("would refuse", server.words())


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

    def start_client(self, server):
        """A program that works until it is ended, when its session has begun."""
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("spin")], stdout=subprocess.PIPE, text=True)
        self.assertEqual(client.stdout.readline(), "spinning\n")
        return client

    def end(self, *clients):
        for client in clients:
            client.kill()
            client.communicate()

    @unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, which sees what a worker sees, on a machine that can do all of it")
    def test_a_worker_is_in_it(self):
        server = Server("--sandbox", "require")
        client = self.start_client(server)
        worker, = server.workers()
        status = status_of(worker)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
        self.assertEqual(uids_of(worker), {user})
        self.assertEqual(int(status["CapEff"], 16), 0)
        for task in os.listdir(f"/proc/{worker}/task"):
            self.assertEqual(status_of(f"{worker}/task/{task}")["Seccomp"], "2")
        self.assertLessEqual(set(os.listdir(f"/proc/{worker}/root/")) - {"usr", "lib", "lib32", "lib64", "bin", "etc", "opt", "run", "sys", "proc", "dev"},
                             {BUILD.split("/")[1], "root", "home"})  # what the emulator was loaded from, where a cache is
        self.assertFalse(os.path.exists(f"/proc/{worker}/root/etc/passwd"))
        self.end(client)
        server.stop()

    @unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, on a machine that can do all of it")
    def test_services_are_in_theirs(self):
        with tempfile.TemporaryDirectory() as directory:
            record = os.path.join(directory, "record")
            server = Server("--sandbox", "require", "--record", record, log="warning")
            self.addCleanup(server.stop)
            client = self.start_client(server)
            keeper, = (pid for pid, words in server.children_by_words().items() if "--keeper-fd" in words)

            def check(pid, user):
                wait_for(lambda: status_of(pid)["Seccomp"] == "2", 10, "a service in its sandbox")
                status = status_of(pid)
                self.assertEqual(uids_of(pid), {user})
                self.assertEqual(status["Groups"].split(), [])
                self.assertEqual([int(status[name], 16) for name in ("CapEff", "CapPrm")], [0, 0])
                self.assertEqual(status["NoNewPrivs"], "1")
                self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/mnt"), os.readlink("/proc/self/ns/mnt"))
                self.assertFalse(os.path.exists(f"/proc/{pid}/root/etc"))

            check(keeper, 65522)
            first = server.broker()
            check(first, 65521)
            self.assertTrue(os.path.exists(record))
            # The next one, too; it has sessions to take over.
            os.kill(first, 9)
            wait_for(lambda: server.broker() not in (None, first), 10, "another broker")
            check(server.broker(), 65521)
            self.assertEqual(run(server, "kernels").returncode, 0, server.words())
            self.end(client)
            self.assertEqual(server.words().count("the broker"), 1, server.words())

    @unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, on a machine that can do all of it")
    def test_services_end_with_a_server_that_is_killed(self):
        server = Server("--sandbox", "require")
        self.addCleanup(server.discard)
        client = self.start_client(server)
        services = [pid for pid, words in server.children_by_words().items() if {"--keeper-fd", "--line-fd"} & set(words)]
        self.assertEqual(len(services), 2)
        server.process.kill()
        server.process.wait()
        wait_for(lambda: not any(map(alive, services)), 10, "the end of the services")
        self.end(client)

    def test_a_worker_has_no_secrets_of_tesserad(self):
        # Without a sandbox a worker's environment can be read by whoever started it.
        server = Server("--sandbox", "off", env=environment(TOKEN_OF_SOMETHING="secret", CUDA_CACHE_MAXSIZE="1000000", LC_ALL="C"))
        client = self.start_client(server)
        worker, = server.workers()
        with open(f"/proc/{worker}/environ") as file:
            variables = file.read()
        self.end(client)
        server.stop()
        self.assertIn("CUDA_CACHE_MAXSIZE=1000000", variables)
        self.assertIn("LC_ALL=C", variables)
        self.assertNotIn("secret", variables)
        self.assertNotIn("PATH=/", variables.replace("LD_LIBRARY_PATH", ""))

    @unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, on a machine that can do all of it")
    def test_workers_with_users_of_their_own(self):
        server = Server("--sandbox", "require", "--worker-uids", "271000-271999", "--warm-workers", "0", log="info")
        for name in set(PROGRAMS) - {"sharing"}:  # which shares events
            if os.path.exists(program(name)):
                with self.subTest(program=name):
                    self.assertEqual(run(server, name).returncode, 0, server.words())
        clients = [self.start_client(server) for _ in range(3)]
        users = [uids_of(worker) for worker in server.workers()]
        self.assertEqual([len(uids) for uids in users], [1, 1, 1])
        self.assertEqual(len(set.union(*users)), 3, "two workers have one user")
        self.assertLessEqual(set.union(*users), set(range(271000, 272000)))
        self.assertIn("the sandbox of workers: a user each, a private root", server.words())
        self.end(*clients)
        self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, which sees what a worker sees, on a machine that can do all of it")
    def test_workers_share_memory_with_each_other_alone(self):
        def directory_of(server):
            """What all its workers see as /dev/shm."""
            clients = [self.start_client(server) for _ in range(2)]
            seen = [f"/proc/{worker}/root/dev/shm" for worker in server.workers()]
            found, = (path for path in glob.glob("/dev/shm/tessera-workers-*") if os.path.samefile(path, seen[0]))
            self.assertTrue(os.path.samefile(seen[0], seen[1]))
            self.end(*clients)
            return found

        server = Server()
        directory = directory_of(server)
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(directory))
        # Of one that was killed it is left, until there is another server.
        killed = Server()
        directory = directory_of(killed)
        killed.process.kill()
        killed.process.wait()
        killed.discard()
        server = Server()
        self.assertFalse(os.path.exists(directory))
        server.stop()

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_no_user_is_left(self):
        server = Server("--worker-uids", "271500-271500", "--warm-workers", "0")
        client = self.start_client(server)
        refused = run(server, "count")
        self.assertIn("--worker-uids", refused.stderr)
        self.end(client)
        wait_for(lambda: not server.workers(), 10, "the end of the worker")
        self.assertEqual(run(server, "count").stderr, "")
        server.stop()

    @unittest.skipUnless(os.geteuid() == 0 and complete(), "needs root, which sees what a worker sees, on a machine that can do all of it")
    def test_a_worker_may_see_the_machine(self):
        server = Server("--sandbox", "require", "--worker-root", "machine", log="info")
        client = self.start_client(server)
        worker, = server.workers()
        self.assertEqual(os.readlink(f"/proc/{worker}/ns/mnt"), os.readlink("/proc/self/ns/mnt"))
        self.assertNotIn("private root", server.words())
        self.end(client)
        server.stop()

    def test_nothing_that_it_refuses_is_needed(self):
        server = Server("--sandbox", "log", log="warning")
        self.assertIn("emulated", server.ready)
        self.run_all(server)
        self.assertNotIn("would refuse", server.words())
        self.assertEqual(server.stop(), 0)

    def test_off(self):
        # The images of other servers of root belong to their keepers' user.
        images = tempfile.TemporaryDirectory()
        self.addCleanup(images.cleanup)
        server = Server("--sandbox", "off", "--image-cache", images.name, log="warning")
        self.assertEqual(run(server, "kernels").returncode, 0)
        self.assertEqual(server.words(), "")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
