#!/usr/bin/env python3
"""What the services of a running server, and an agent, can do to others once they have been taken over: each is made to try, from within
(tests/support/attempt_inside.cc), and goes on serving.

usage: services_taken_over_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import tempfile
import unittest

from product import AGENT, BUILD, HAS_CONTROL_API, TESSERA, Part, Server, children, end_with_test, environment, program, status_of, uids_of, wait_for
from users import ALICE, become, can_be_another

NO_FILE = {"EACCES", "ENOENT"}  # without a private root, and with one
# What is tried -> what a service is told, and what a process of the same user that has given up nothing.
ATTEMPTS = {
    "read-passwd": (NO_FILE, {"done"}),
    "read-file": (NO_FILE, {"done"}),
    "write-file": (NO_FILE, {"done"}),
    "make-file": (NO_FILE, {"done"}),
    "read-memory": ({"EACCES"}, {"done"}),
    "read-memory-of-init": ({"EACCES"}, {"EACCES"}),  # another user's
    "truncate": ({"EPERM", *NO_FILE}, {"done"}),
    "chmod": ({"EPERM"}, {"done"}),
    "socket-inet": ({"EPERM"}, {"done"}),
    "socket-inet6": ({"EPERM"}, {"done", "EAFNOSUPPORT"}),
    "socket-datagram": ({"EPERM"}, {"done"}),
    "socket-unix": ({"EPERM"}, {"done"}),
    "connect": ({"EPERM"}, {"EBADF"}),
    "execve": ({"EPERM"}, {"ENOENT"}),
    "kill": ({"EPERM"}, {"done"}),
    "kill-init": ({"EPERM"}, {"EPERM"}),
    "setuid": ({"EPERM"}, {"done"}),
    "setuid-root": ({"EPERM"}, {"EPERM"}),
    "ptrace": ({"EPERM"}, {"done"}),
    "process_vm_readv": ({"EPERM"}, {"done"}),
    "prlimit64": ({"EPERM"}, {"done"}),
    "setpriority": ({"EPERM"}, {"done"}),
    "map-code": ({"EPERM"}, {"done"}),
    "type-into-terminal": ({"EPERM"}, {"ENOTTY"}),
    "io_uring_setup": ({"EPERM"}, {"done", "ENOSYS", "EPERM"}),  # some machines have none for anybody
    "unshare": ({"EPERM"}, {"done"}),
    "be-dumped": ({"EPERM"}, {"done"}),
}


def complete(before=None):
    """Whether this machine can do all of the sandbox."""
    return subprocess.run([os.path.join(BUILD, "bin/tesserad"), "--check-sandbox"], capture_output=True, env=environment(HOME="/nonexistent"), cwd="/",
                          preexec_fn=before).returncode == 0


class TakenOver(unittest.TestCase):
    """Services that are made to try what an attacker would, beside a process of the same user that has given up nothing."""

    def setUp(self):
        self.idlers = []
        self.addCleanup(self.end_idlers)

    def end_idlers(self):
        for process in self.idlers:
            process.kill()
        for process in self.idlers:  # one may trace another, whose end is seen only after its own
            process.wait()

    def attempts(self, pid, user):
        """What each attempt is told in a process of this user."""
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "file")
            with open(file, "w") as written:
                written.write("secret")
            for path in (file, directory):
                os.chown(path, user, user)
            victim = self.idle(user)
            tried = subprocess.run([os.path.join(BUILD, "tests/attempt_inside"), str(pid), str(victim), file, directory], capture_output=True, text=True,
                                   timeout=60)
            if tried.returncode == 77:
                self.skipTest(tried.stderr.strip())
            self.assertEqual(tried.returncode, 0, tried.stderr)
            return dict(line.split(" ") for line in tried.stdout.splitlines())

    def idle(self, user):
        """A process of this user."""
        process = subprocess.Popen(["sleep", "600"], preexec_fn=become(user, user))
        end_with_test(process)
        self.idlers.append(process)
        return process.pid

    def check(self, services):
        for name, pid in services.items():
            wait_for(lambda: status_of(pid)["Seccomp"] == "2", 10, "a service in its sandbox")
            user, = uids_of(pid)
            told = self.attempts(pid, user)
            otherwise = self.attempts(self.idle(user), user)
            self.assertEqual(set(told), set(ATTEMPTS))
            for attempt, (confined, free) in ATTEMPTS.items():
                with self.subTest(service=name, attempt=attempt):
                    self.assertIn(told[attempt], confined)
                    self.assertIn(otherwise[attempt], free)


@unittest.skipUnless(can_be_another() and complete(), "needs root, a build that others can read, and a machine that can do all of it")
class Services(TakenOver):
    def check_server(self, user=None):
        before = become(user, user) if user is not None else None
        with tempfile.TemporaryDirectory() as home:
            if user is not None:
                os.chown(home, user, user)
            env = environment(HOME=home, XDG_CACHE_HOME=os.path.join(home, "cache"), XDG_STATE_HOME=os.path.join(home, "state"))
            records = ("--usage-days", "7") if HAS_CONTROL_API else ()
            server = Server("--listen", "tcp://127.0.0.1:0", *records, owner=user, before=before, env=env, log="warning")
            self.addCleanup(server.discard)
            self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
            tcp = server.ready.split(" and ")[1].split(",")[0]
            url = f"unix:{home}/agent.sock"
            agent = Part(AGENT, "--listen", url, "--server", tcp, before=before)
            self.addCleanup(lambda: agent.process.poll() is None and agent.kill())
            client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", url, "--", program("spin")], stdout=subprocess.PIPE, text=True, env=env, cwd="/",
                                      preexec_fn=before)
            end_with_test(client)
            self.assertEqual(client.stdout.readline(), "spinning\n", server.words() + agent.words())
            keeper, = (pid for pid, words in server.children_by_words().items() if "--keeper-fd" in words)
            gateway, = server.gateways()
            services = {"broker": server.broker(), "keeper of images": keeper, "gateway": children(gateway)[0], "agent": agent.carrier()}
            if records:
                services["keeper of usage records"], = (pid for pid, words in server.children_by_words().items() if "--usage-fd" in words)
            self.check(services)
            # They serve on, the old session and new ones.
            done = subprocess.run([TESSERA, "run", "--quiet", "--server", url, "--", program("train"), "50"], capture_output=True, text=True, timeout=60,
                                  env=env, cwd="/", preexec_fn=before)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIsNone(client.poll())
            self.assertEqual([server.broker(), children(gateway)[0], agent.carrier()], [services["broker"], services["gateway"], services["agent"]])
            self.assertEqual(server.words(), "")
            client.kill()
            client.communicate()
            self.assertEqual(agent.stop(), 0)
            server.process.terminate()
            self.assertEqual(server.process.wait(20), 0)

    def test_of_roots_server(self):
        self.check_server()

    @unittest.skipUnless(can_be_another() and complete(become(ALICE, ALICE)), "this machine cannot do all of it for an ordinary user")
    def test_of_an_ordinary_users_server(self):
        self.check_server(ALICE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
