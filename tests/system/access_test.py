#!/usr/bin/env python3
"""Who may use a server: other users of its host, by the mode of its socket; and what it says of those who need prove nothing.

usage: access_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import unittest

from product import DAEMON, TESSERA, Gateway, Keys, Server, environment

# Users and a group that no account has.
ALICE, BOB, GROUP, NO_GROUP = 71001, 71002, 71010, 71011


def become(user, group=NO_GROUP):
    def change():
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    return change


def can_be_another():
    """Whether programs can be run as users without rights, from where they were built."""
    return os.geteuid() == 0 and subprocess.run([TESSERA, "--version"], stdout=subprocess.DEVNULL, preexec_fn=become(ALICE)).returncode == 0


CAN_BE_ANOTHER = can_be_another() if os.geteuid() == 0 else False


def ask(url, user, group=NO_GROUP):
    return subprocess.run([TESSERA, "status", "--server", url], capture_output=True, text=True, timeout=60, cwd="/",
                          env=environment(HOME="/nonexistent"), preexec_fn=become(user, group))


@unittest.skipUnless(CAN_BE_ANOTHER, "needs root, and programs that every user can reach")
class OtherUsers(unittest.TestCase):
    def serve(self, *options):
        server = Server(*options)
        self.addCleanup(server.stop)
        os.chmod(server.directory.name, 0o755)
        return server

    def test_by_itself_a_socket_is_one_users(self):
        server = self.serve()
        refused = ask(server.url, ALICE)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("not allowed to use the socket", refused.stderr)
        # Nor is the file's mode believed that nobody has asked the server for.
        os.chmod(server.path, 0o666)
        refused = ask(server.url, ALICE)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"user {ALICE}", refused.stderr)

    def test_members_of_a_group(self):
        server = self.serve("--socket-group", str(GROUP))
        self.assertEqual(os.stat(server.path).st_mode & 0o777, 0o660)
        self.assertIn("not allowed to use the socket", ask(server.url, ALICE).stderr)
        self.assertEqual(ask(server.url, ALICE, GROUP).returncode, 0)

    def test_every_user_of_the_host(self):
        server = self.serve("--socket-mode", "666")
        for user in (ALICE, BOB):
            done = ask(server.url, user)
            self.assertEqual(done.returncode, 0, done.stderr)


class ReadyLine(unittest.TestCase):
    def test_plain_addresses_say_who_may_connect(self):
        server = Server("--listen", "tcp://127.0.0.1:0")
        self.assertRegex(server.ready, r"; every user of this host may connect to tcp://127\.0\.0\.1:\d+\n$")
        gateway = Gateway(server.path)
        self.assertTrue(gateway.ready.endswith(f"; every user of this host may connect to {gateway.url}\n"), gateway.ready)
        gateway.stop()
        gateway = Gateway(server.path, "--insecure", listen="tcp://0.0.0.0:0")
        self.assertTrue(gateway.ready.endswith(f"; everybody on its network may connect to {gateway.url}\n"), gateway.ready)
        gateway.stop()
        gateway = Gateway(server.path, *Keys().options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")
        self.assertNotIn("may connect", gateway.ready)
        self.assertTrue(gateway.ready.startswith("tessera-gateway: listening on tls://"), gateway.ready)
        gateway.stop()
        server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
