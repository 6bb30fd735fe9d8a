#!/usr/bin/env python3
"""The control API at tls://: who is who by certificates, and what strangers at the port get.

usage: vgpu_control_tls_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from product import TESSERA, Keys, Server, environment, wait_for

NOBODY_IS_HERE = "tls://127.0.0.1:1"


class VgpuControlTlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = Keys()

    def serve(self, *options, keys=None):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        keys = keys or self.keys.options("server", "localhost,127.0.0.1")
        self.server = Server("--control", "tls://127.0.0.1:0", "--admin", "name:root-of-gpus", *keys, *options,
                             env=environment(XDG_STATE_HOME=state.name))
        self.addCleanup(self.server.stop)
        self.url = re.search(r"control API at (tls://\S+)", self.server.ready).group(1)
        self.port = int(self.url.rsplit(":", 1)[1])

    def vgpu(self, name, *words, code=0, url=None, keys=None):
        """What is said to whoever has the certificate of this name: on stdout, or on stderr where it is to fail."""
        known = (keys or self.keys).environment("client", name) if name else {}
        done = subprocess.run([TESSERA, "vgpu", *map(str, words), "--control", url or self.url], capture_output=True, text=True, timeout=60,
                              env=environment(HOME="/nonexistent", **known))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Atessera: [^\n]+\n\Z")
        return done.stderr if code else done.stdout

    def names(self, name):
        return [vgpu["name"] for vgpu in json.loads(self.vgpu(name, "list", "-o", "json"))["vgpus"]]

    def test_three_certificates(self):
        self.serve()
        for name in ("alice", "bob", "carol"):
            self.vgpu("root-of-gpus", "create", f"of-{name}", "--request", 0.2, "--owner", f"name:{name}")
        for name in ("alice", "bob", "carol"):
            self.assertEqual(self.names(name), [f"of-{name}"])
            self.vgpu(name, "show", f"of-{name}")
        self.assertEqual(self.names("root-of-gpus"), ["of-alice", "of-bob", "of-carol"])
        # Another's, and one that is not there: the same words.
        words = self.vgpu("alice", "show", "of-bob", code=79)
        self.assertEqual(words.replace("of-bob", "nothere"), self.vgpu("alice", "show", "nothere", code=79))
        for change in (("create", "mine"), ("resize", "of-alice", "--limit", 0.5), ("resize", "of-bob", "--limit", 0.5),
                       ("delete", "of-alice"), ("delete", "of-bob", "--force")):
            self.assertIn("name:alice may not change vGPUs", self.vgpu("alice", *change, code=73))
        self.vgpu("root-of-gpus", "resize", "of-bob", "--limit", 0.5)
        self.vgpu("root-of-gpus", "delete", "of-bob")
        self.assertEqual(self.names("bob"), [])
        # Beside it users of this host come by the socket.
        done = subprocess.run([TESSERA, "vgpu", "list", "--server", self.server.url], capture_output=True, text=True, timeout=60, env=environment())
        self.assertIn("of-carol", done.stdout)

    def test_a_broker_that_is_started_anew_listens_again(self):
        self.serve()
        self.vgpu("root-of-gpus", "create", "a")
        broker = self.server.broker()
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")
        self.assertEqual(self.names("root-of-gpus"), ["a"])

    def test_who_is_not_accepted(self):
        self.serve("--allow", "alice")
        self.vgpu("alice", "list")
        self.assertIn("does not allow 'bob'", self.vgpu("bob", "list", code=73))
        others = Keys()
        self.assertIn("signed by", self.vgpu("alice", "list", code=73, keys=others))
        # Of another authority, to a client that believes the server.
        place = others.of("client", "mallory")
        shutil.copy(os.path.join(self.keys.of("client", "alice"), "authority.pem"), os.path.join(place, "authority.pem"))
        self.assertIn("does not accept the certificate", self.vgpu("mallory", "list", code=73, keys=others))
        self.assertIn("there is no certificate", self.vgpu(None, "list", code=73))
        self.assertIn("nobody listens", self.vgpu("alice", "list", code=72, url=NOBODY_IS_HERE))
        self.vgpu("alice", "list", code=71, url="tls://127.0.0.1:x")
        self.serve(keys=self.keys.options("server", "elsewhere.example"))
        self.assertIn("is for elsewhere.example and not for 127.0.0.1", self.vgpu("alice", "list", code=73))

    def test_strangers(self):
        self.serve()
        connect = lambda: self.enterContext(socket.create_connection(("127.0.0.1", self.port), 20))
        silent = [connect() for _ in range(100)]
        # The 64 that came last are there; the first ones are closed at once.
        for each in silent[:20]:
            self.assertEqual(each.recv(1), b"")
        begin = time.monotonic()
        self.assertEqual(silent[-1].recv(1), b"")
        self.assertLess(time.monotonic() - begin, 10)
        # Begins a record, and says no more.
        slow = connect()
        slow.sendall(b"\x16\x03\x01\x02\x00")
        for garbage in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
            stranger = connect()
            stranger.sendall(garbage)
            heard = b""
            try:
                while some := stranger.recv(4096):
                    heard += some
            except ConnectionResetError:
                pass
            self.assertLess(len(heard), 64)
        place = self.keys.of("client", "alice")
        for version, certificate, why in ((ssl.TLSVersion.TLSv1_2, True, "PROTOCOL_VERSION"), (ssl.TLSVersion.TLSv1_3, False, "CERTIFICATE_REQUIRED")):
            context = ssl.create_default_context(cafile=f"{place}/authority.pem")
            context.maximum_version = version
            if certificate:
                context.load_cert_chain(f"{place}/certificate.pem", f"{place}/key.pem")
            with self.assertRaisesRegex(ssl.SSLError, why):
                with context.wrap_socket(connect(), server_hostname="localhost") as peer:
                    peer.recv(1)
        self.vgpu("alice", "list")
        self.assertEqual(slow.recv(1), b"")

    def test_new_keys_without_a_restart(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        place = os.path.join(directory.name, "keys")
        shutil.copytree(self.keys.of("server", "localhost,127.0.0.1"), place)
        self.serve(keys=["--certificate", f"{place}/certificate.pem", "--key", f"{place}/key.pem", "--authority", f"{place}/authority.pem"])
        with open(f"{place}/certificate.pem", "w") as file:
            file.write("nothing")
        self.server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "goes on with the certificate as it was" in self.server.words(), 30, "a word about broken files")
        self.vgpu("root-of-gpus", "list")
        others = Keys()
        shutil.rmtree(place)
        shutil.copytree(others.of("server", "localhost,127.0.0.1"), place)
        self.server.process.send_signal(signal.SIGHUP)
        known = others.environment("client", "root-of-gpus")
        # Its line in the log is the one of before.
        wait_for(lambda: subprocess.run([TESSERA, "vgpu", "list", "--control", self.url], capture_output=True, timeout=60,
                                        env=environment(**known)).returncode == 0, 30, "the new files")
        self.vgpu("root-of-gpus", "create", "a", keys=others)
        self.vgpu("root-of-gpus", "list", code=73)
        key = pathlib.Path(place, "key.pem").read_text().splitlines()[1]
        self.assertNotIn(key, self.server.words())

    def test_what_is_refused_at_the_start(self):
        taken = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        keys = self.keys.options("server", "localhost,127.0.0.1")
        for options, code, why in ((["--control", "tls://127.0.0.1:0"], 4, "there is no certificate"),
                                   (["--control", "tls://0.0.0.0:0"], 4, "there is no certificate"),
                                   (["--control", f"tls://127.0.0.1:{taken.getsockname()[1]}", *keys], 4, "somebody"),
                                   (["--control", "tls://127.0.0.1:0", *self.keys.options("client", "alice")], 4, "is not one for servers"),
                                   (["--control", "tcp://127.0.0.1:0"], 2, "--control takes unix:PATH"),
                                   (["--control", "tls://a:1", "--control", "tls://b:1"], 2, "there can be one --control")):
            with self.subTest(options=options):
                server = Server(*options, env=environment(HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent"))
                self.addCleanup(server.discard)
                self.assertEqual(server.process.wait(30), code)
                self.assertIn(why, server.words())


if __name__ == "__main__":
    unittest.main(verbosity=2)
