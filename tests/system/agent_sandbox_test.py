#!/usr/bin/env python3
"""An agent in its sandbox: the process that carries sessions opens no file and makes no connection, and sessions come all the same.

usage: agent_sandbox_test.py BUILD_DIRECTORY
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from product import CLIENT, Agent, Gateway, Keys, Server, environment, have_ucx, program, status_of, uids_of, wait_for
from users import ALICE, become, can_be_another


class Agents(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)

    def start(self, url, *options, user=None):
        """An agent; `user`: of that one, at a directory of its own."""
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        if user is not None:
            os.chown(self.directory, user, user)
        agent = Agent(url, *options, url=f"unix:{self.directory}/agent.sock", before=become(user, user) if user is not None else None)
        self.addCleanup(lambda: agent.process.poll() is None and agent.stop())
        return agent

    def count(self, agent, user=None):
        return subprocess.run([program("count")], capture_output=True, text=True, timeout=60, cwd="/",
                              env=environment(TESSERA_SERVER=agent.url, LD_LIBRARY_PATH=CLIENT),
                              preexec_fn=become(user, user) if user is not None else None)

    def check_count(self, agent, user=None):
        done = self.count(agent, user)
        self.assertEqual(done.returncode, 0, done.stderr + agent.words())

    def start_gateway(self, *options, listen="tcp://127.0.0.1:0"):
        gateway = Gateway(self.server.path, *options, listen=listen)
        self.addCleanup(gateway.stop)
        return gateway

    def check_confined(self, agent, user):
        carrier = agent.carrier()
        wait_for(lambda: status_of(carrier)["Seccomp"] == "2", 10, "an agent in its sandbox")
        fields = status_of(carrier)
        self.assertEqual(uids_of(carrier), {user})
        self.assertEqual([int(fields[name], 16) for name in ("CapEff", "CapPrm")], [0, 0])
        self.assertEqual(fields["NoNewPrivs"], "1")
        return carrier

    def test_names_are_looked_up_and_sessions_come_after_a_crash(self):
        gateway = self.start_gateway()
        agent = self.start(gateway.url.replace("127.0.0.1", "localhost"))
        own = 65524 if os.geteuid() == 0 else os.geteuid()
        first = self.check_confined(agent, own)
        self.check_count(agent)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: agent.carrier() != first, 10, "another process that carries sessions")
        self.check_confined(agent, own)
        self.check_count(agent)
        self.assertEqual(agent.stop(), 0)

    @unittest.skipUnless(can_be_another(), "needs root, and a build that others can read")
    def test_of_an_ordinary_user(self):
        agent = self.start(self.start_gateway().url, user=ALICE)
        self.check_confined(agent, ALICE)
        self.check_count(agent, ALICE)
        self.check_count(agent)  # of root
        self.assertEqual(agent.stop(), 0)

    def test_why_there_is_no_connection_reaches_the_program(self):
        for url, why in (("tcp://127.0.0.1:1", "nobody listens at tcp://127.0.0.1:1"),
                         ("tls://no-such-host.invalid:1", "there is no (certificate|private key) at"),
                         ("tcp://no-such-host.invalid:1", "the host no-such-host.invalid .* is not known"),
                         ("tcp://192.0.2.1:1", "is not an address of this host alone")):
            with self.subTest(url=url):
                options = ("--certificate", "/nonexistent/certificate.pem") if url.startswith("tls") else ()
                refused = self.count(self.start(url, *options))
                self.assertRegex(refused.stderr, why)

    def test_keys_are_read_again(self):
        keys = Keys()
        gateway = self.start_gateway(*keys.options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")
        agent = self.start(gateway.url, *keys.options("client", "laptop"))
        self.check_count(agent)
        shutil.copytree(keys.of("client", "desktop"), keys.of("client", "laptop"), dirs_exist_ok=True)
        self.check_count(agent)
        self.assertEqual(re.findall("a session of ([a-z]+) .*begun", gateway.words()), ["laptop", "desktop"])

    def test_nothing_that_it_refuses_is_needed(self):
        keys = Keys()
        gateway = self.start_gateway(*keys.options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")
        agent = self.start(gateway.url.replace("127.0.0.1", "localhost"), "--sandbox", "log", *keys.options("client", "laptop"))
        self.check_count(agent)
        # Ubuntu's OpenSSL asks, and does without.
        asked = [line for line in agent.words().splitlines() if "would refuse" in line]
        self.assertEqual([line for line in asked if "/proc/sys/crypto/fips_enabled" not in line], [])

    def test_without_one(self):
        agent = self.start(self.start_gateway().url, "--sandbox", "off")
        self.assertEqual(status_of(agent.carrier())["Seccomp"], "0")
        self.check_count(agent)

    @unittest.skipUnless(have_ucx(), "UCX is not installed (libucx0)")
    def test_over_ucx(self):
        gateway = self.start_gateway("--sandbox", "require", listen="ucx://127.0.0.1:0")
        agent = self.start(gateway.url, "--sandbox", "require")
        self.check_confined(agent, 65524 if os.geteuid() == 0 else os.geteuid())
        self.check_count(agent)
        self.assertEqual(agent.stop(), 0)


if __name__ == "__main__":
    unittest.main()
