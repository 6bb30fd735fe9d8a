#!/usr/bin/env python3
"""A placer that signs for whoever's certificate ends: nodes ask by themselves, users by a command, and nobody gets another's name."""

import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from pool import PLACER, Started
from product import Keys, Server, TESSERA, environment, free_port, program, wait_for

CONFIG = """
[ca]
default_ca = all
[all]
database = {place}/index.txt
new_certs_dir = {place}
rand_serial = yes
default_md = sha256
policy = names
unique_subject = no
[names]
commonName = supplied
[extensions]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = {purposes}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{names}
"""


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def age(keys, kind, name, begins, ends):
    """The certificate of `name` again, of another time: days from now."""
    place = keys.of(kind, name)
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "index.txt").touch()
        names = ",".join(("IP:" if part[0].isdigit() else "DNS:") + part for part in name.split(",")) if kind == "host" else ""
        pathlib.Path(directory, "config").write_text(CONFIG.format(
            place=directory, purposes="clientAuth" if kind == "client" else "serverAuth,clientAuth", names=names and "subjectAltName = " + names))
        openssl("req", "-new", "-key", f"{place}/key.pem", "-subj", "/CN=" + name.split(",")[0], "-out", f"{directory}/request")
        when = lambda days: (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ")
        openssl("ca", "-batch", "-notext", "-config", f"{directory}/config", "-extensions", "extensions", "-startdate", when(begins), "-enddate", when(ends),
                "-cert", f"{keys.authority}/authority.pem", "-keyfile", f"{keys.authority}/authority-key.pem", "-in", f"{directory}/request",
                "-out", f"{directory}/made")
        made = pathlib.Path(directory, "made").read_text()
    path = pathlib.Path(place, "certificate.pem")
    path.write_text(made)
    return path


def show(path):
    done = subprocess.run([TESSERA, "keys", "show", "-o", "json", path], capture_output=True, text=True, check=True, env=environment())
    return json.loads(done.stdout)


class Renewal(unittest.TestCase):
    def begin(self, signs=True):
        self.keys = Keys()
        options = ["--sign-with", self.keys.authority] if signs else []
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.write("")
        self.url = f"tls://127.0.0.1:{free_port()}"
        self.placer = Started(f"{self.directory}/placer.log", PLACER, "--listen", self.url, "--listen", f"unix:{self.directory}/placer.sock", "--store",
                              "memory", "--policy", f"{self.directory}/policy.toml", "--log", "info", *options,
                              *self.keys.options("server", "127.0.0.1,localhost"))
        self.addCleanup(self.placer.stop)

    def write(self, roles):
        path = pathlib.Path(self.directory, "policy.new")
        path.write_text(f'[roles]\n"name:gpu7" = "server"\n"name:boss" = "admin"\n{roles}others = "tenant"\n')
        path.rename(path.with_name("policy.toml"))

    def renew(self, who, code=0, url=None):
        done = subprocess.run([TESSERA, "keys", "renew", self.keys.of("client", who), "--placer", url or self.url], capture_output=True, text=True,
                              timeout=60, env=environment())
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def events(self, action):
        """In the audit."""
        done = subprocess.run([TESSERA, "audit", "-o", "json", *self.keys.options("client", "boss"), "--placer", self.url], capture_output=True, text=True,
                              check=True, timeout=60, env=environment())
        return [event for event in json.loads(done.stdout)["events"] if event["action"] == action]

    def signatures(self):
        """In the audit: (actor, outcome, text) of each."""
        return [(event["actor"], event["outcome"], event["text"]) for event in self.events("sign")]

    def test_a_user_renews_and_nobody_else_gets_one(self):
        self.begin()
        path = age(self.keys, "client", "alice", -20, 2)
        before, key = show(path), pathlib.Path(path).with_name("key.pem").read_text()
        self.assertIn("the certificate of 'alice', until ", self.renew("alice"))
        now = show(path)
        self.assertEqual([now[word] for word in ("name", "names", "purposes", "signed_by")],
                         [before[word] for word in ("name", "names", "purposes", "signed_by")])
        self.assertAlmostEqual(now["ends"] - before["ends"], 5 * 86400, delta=600)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(path.with_name("key.pem").read_text(), key)
        self.assertEqual({each.name for each in path.parent.iterdir()}, {"certificate.pem", "key.pem", "authority.pem"})
        wait_for(lambda: [(who, how) for who, how, _ in self.signatures()] == [("name:alice", "done")], 10, "the record")
        self.assertRegex(self.signatures()[0][2], r"^a certificate until .* UTC, serial [0-9a-f]{32}$")
        # It works, and is good for nearly as long as what would be signed.
        self.assertIn("it stays as it is", self.renew("alice", 81))
        # By its socket nobody shows a certificate.
        self.assertIn("tls://HOST:PORT", self.renew("alice", 71, f"unix:{self.directory}/placer.sock"))
        # Whose role is gone, whose time is over, who is of another authority.
        age(self.keys, "client", "bob", -20, 2)
        self.write('"name:bob" = "nobody"\n')
        self.assertIn("name:bob has no role at this placer", self.renew("bob", 73))
        path = age(self.keys, "client", "carol", -20, -1)
        before = path.read_text()
        self.assertIn("has expired", self.renew("carol", 73))
        self.assertEqual(path.read_text(), before)
        wait_for(lambda: ("name:bob", "refused") in [each[:2] for each in self.signatures()], 10, "the record")
        self.assertNotIn("name:carol", [each[0] for each in self.signatures()])
        self.assertEqual(len([each for each in self.signatures() if each[1] == "done"]), 1)

    def test_a_placer_that_signs_nothing_says_so_and_one_with_no_authority_does_not_start(self):
        self.begin(signs=False)
        age(self.keys, "client", "alice", -20, 2)
        self.assertIn("was started without --sign-with", self.renew("alice", 73))
        for place, why in ((self.keys.of("client", "alice"), "--sign-with takes the directory of an authority"), ("/nonexistent", "No such file")):
            other = Started(f"{self.directory}/other.log", PLACER, "--listen", f"unix:{self.directory}/other.sock", "--store", "memory", "--sign-with", place)
            self.assertEqual(other.process.wait(20), 4)
            other.process.stdout.close()
            self.assertIn(why, other.words())

    def test_a_server_that_the_roles_name_is_nobody_else(self):
        self.begin()
        self.write('"name:gpu8" = "server"\n')
        for name in ("gpu8", "gpu7"):  # what it is called: the certificate is that of gpu8
            server = Server("--listen", "tls://127.0.0.1:0", "--placer", self.url, "--host-id", name, *self.keys.options("host", "gpu8,127.0.0.1"))
            self.addCleanup(server.stop)
            if name == "gpu8":
                wait_for(lambda: "server 'gpu8' of name:gpu8 has joined" in self.placer.words(), 20, "the server's joining")
        why = "the server 'gpu7' is another certificate's than name:gpu8 in the placer's roles (tessera-placer --policy): give this host another id"
        wait_for(lambda: why in server.words(), 20, "the refusal")
        self.assertNotIn("server 'gpu7'", self.placer.words())
        wait_for(lambda: ("name:gpu8", "refused") in [(event["actor"], event["outcome"]) for event in self.events("join")], 10, "the record")

    def test_a_node_renews_by_itself_while_a_session_runs(self):
        self.begin()
        path = age(self.keys, "host", "gpu7,127.0.0.1", -20, 2)
        before = show(path)
        server = Server("--listen", "tls://127.0.0.1:0", "--placer", self.url, *self.keys.options("host", "gpu7,127.0.0.1"))
        self.addCleanup(server.stop)
        # The node looks at its start already: a job is there when it looks again.
        wait_for(lambda: show(path)["ends"] > before["ends"] + 4 * 86400, 20, "the node's certificate")
        wait_for(lambda: "has joined" in self.placer.words(), 20, "the server's joining")
        alice = self.keys.options("client", "alice")
        job = subprocess.Popen([TESSERA, "run", *alice, "--gpu-share", "0.5", "--", "sh", "-c", f"{program('copies')} && echo ready && read line; exec {program('copies')}"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(TESSERA_PLACER=self.url))
        self.addCleanup(lambda: [pipe.close() for pipe in (job.stdin, job.stdout, job.stderr)])
        self.addCleanup(job.kill)
        while (line := job.stdout.readline()) not in ("ready\n", ""):
            pass
        self.assertEqual(line, "ready\n", job.poll() is not None and job.stderr.read())
        joined = self.placer.words().count("has joined")
        age(self.keys, "host", "gpu7,127.0.0.1", -20, 2)
        wait_for(lambda: show(path)["ends"] > before["ends"] + 4 * 86400, 30, "the node's certificate again")
        now = show(path)
        self.assertEqual([now[word] for word in ("name", "names", "purposes")], [before[word] for word in ("name", "names", "purposes")])
        self.assertEqual([each[:2] for each in self.signatures()], [("name:gpu7", "done")] * 2)
        job.stdin.close()
        job.stdout.read()
        self.assertEqual(job.wait(20), 0)
        self.assertEqual(self.placer.words().count("has joined"), joined)


if __name__ == "__main__":
    unittest.main(verbosity=2)
