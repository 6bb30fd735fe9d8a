#!/usr/bin/env python3
"""`tessera keys`: what it makes, whom it is for, and what it does not do. That the certificates work is two_hosts_test's.

usage: keys_test.py BUILD_DIRECTORY
"""

import json
import os
import subprocess
import tempfile
import time
import unittest

from product import TESSERA, environment

DAY = 86400


class KeysCommand(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.authority = os.path.join(self.directory.name, "authority")

    def keys(self, *words, code=0):
        done = subprocess.run([TESSERA, "keys", *words], capture_output=True, text=True, timeout=60, env=environment(), cwd=self.directory.name)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1 if code else 0, done.stderr)
        return done.stderr if code else done.stdout

    def show(self, *path):
        return json.loads(self.keys("show", "-o", "json", os.path.join(self.authority, *path)))

    def test_authority_server_and_client(self):
        self.keys("authority", self.authority)
        self.keys("server", "gpu7.example,10.0.0.7,::1", "--authority", self.authority)
        self.keys("client", "Alice of Accounts", "--authority", self.authority, "--days", "7")
        authority = self.show("authority.pem")
        self.assertEqual((authority["purposes"], authority["state"]), (["authority"], "valid"))
        self.assertAlmostEqual(authority["ends"] - time.time(), 3650 * DAY, delta=600)
        server = self.show("gpu7.example", "certificate.pem")
        self.assertEqual((server["name"], server["names"], server["purposes"]), ("gpu7.example", ["gpu7.example", "10.0.0.7", "::1"], ["server"]))
        self.assertEqual(server["signed_by"], authority["name"])
        self.assertAlmostEqual(server["ends"] - time.time(), 365 * DAY, delta=600)
        client = self.show("Alice of Accounts", "certificate.pem")
        self.assertEqual((client["name"], client["names"], client["purposes"]), ("Alice of Accounts", [], ["client"]))
        self.assertAlmostEqual(client["ends"] - time.time(), 7 * DAY, delta=600)
        self.keys("host", "gpu8.example", "--authority", self.authority)
        host = self.show("gpu8.example", "certificate.pem")
        self.assertEqual((host["names"], host["purposes"]), (["gpu8.example"], ["server", "client"]))
        for directory, _, files in os.walk(self.authority):
            self.assertEqual(os.stat(directory).st_mode & 0o777, 0o700)
            for name in files:
                self.assertEqual(os.stat(os.path.join(directory, name)).st_mode & 0o777, 0o600, name)
        self.assertIn("gpu7.example, 10.0.0.7", self.keys("show", os.path.join(self.authority, "gpu7.example", "certificate.pem")))

    def test_two_authorities_of_one_name(self):
        others = os.path.join(self.directory.name, "others")
        for place in (self.authority, others):
            self.keys("authority", place, "--name", "Team A")
            self.keys("client", "alice", "--authority", place)
        ours, theirs = (json.loads(self.keys("show", "-o", "json", os.path.join(place, "authority.pem"))) for place in (self.authority, others))
        self.assertEqual((ours["name"], theirs["name"]), ("Team A", "Team A"))
        self.assertNotEqual(ours["key"], theirs["key"])
        alice = self.show("alice", "certificate.pem")
        self.assertEqual((alice["signed_by"], alice["signed_by_key"]), ("Team A", ours["key"]))
        told = self.keys("show", os.path.join(self.authority, "alice", "certificate.pem"))
        for line in (f"signed by  Team A, key {ours['key']}\n", f"key        {alice['key']}\n", f"sha256     {alice['fingerprint']}\n"):
            self.assertIn(line, told)
        self.assertIn("--name takes 1 to 64 bytes", self.keys("authority", others + "2", "--name", "x" * 65, code=78))

    def test_openssl_agrees(self):
        if subprocess.run(["which", "openssl"], capture_output=True).returncode != 0:
            self.skipTest("needs the openssl command")
        self.keys("authority", self.authority)
        for kind, purpose in (("server", "sslserver"), ("client", "sslclient")):
            self.keys(kind, kind + "1", "--authority", self.authority)
            done = subprocess.run(["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", f"{self.authority}/authority.pem",
                                   f"{self.authority}/{kind}1/certificate.pem"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nothing_is_overwritten_unless_asked(self):
        self.keys("authority", self.authority)
        before = self.show("authority.pem")
        self.assertIn("--force", self.keys("authority", self.authority, code=78))
        self.assertEqual(self.show("authority.pem"), before)
        self.keys("client", "alice", "--authority", self.authority)
        self.assertIn("--force", self.keys("client", "alice", "--authority", self.authority, code=78))
        self.keys("client", "alice", "--authority", self.authority, "--force")
        self.keys("client", "alice", "--authority", self.authority, "--directory", os.path.join(self.directory.name, "new/place"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.directory.name, "new/place"))), ["authority.pem", "certificate.pem", "key.pem"])

    def test_what_is_wrong_is_said(self):
        self.assertIn("tessera keys authority DIRECTORY", self.keys("client", "alice", code=78))
        self.keys("authority", self.authority)
        for names in ("", "gpu7,", "a b", "gpu7,DNS:other"):
            self.assertIn("neither the name of a host nor an IP address" if names else "no name", self.keys("server", names, "--authority", self.authority, code=78))
        self.assertIn("64", self.keys("client", "x" * 65, "--authority", self.authority, code=78))
        self.assertIn("--directory", self.keys("client", "../alice", "--authority", self.authority, code=78))
        self.assertIn("holds no certificate", self.keys("show", os.path.join(self.authority, "authority-key.pem"), code=78))
        self.assertIn("No such file", self.keys("show", "/nonexistent", code=78))
        self.assertIn("tessera keys --help", self.keys("sign", "x", code=2))
        self.assertIn("subject is required", self.keys("client", code=2))
        self.assertIn("--days", self.keys("renew", "--days", "7", code=2))
        self.assertRegex(self.keys("client", "alice", "--days", "0", code=2), "1 (to|-) 36500")


if __name__ == "__main__":
    unittest.main(verbosity=2)
