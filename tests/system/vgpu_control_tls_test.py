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
import sys
import tempfile
import time
import unittest

from product import CLIENT, TESSERA, Keys, Server, end_with_test, environment, free_port, status_of, wait_for
from vgpu_test import VgpuTest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import control_flood  # noqa: E402

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
        self.vgpu("alice", "list", code=71, url="tls://127.0.0.1")
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


class Floods(VgpuTest):
    """Tokens go on while clients of the control API do their worst. Bounds are wide: tests/bench/quota has the figures."""

    def check(self, listen, url, keys=None):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        port = free_port()
        self.server = Server("--metrics", f"127.0.0.1:{port}", "--default", "none", *listen,
                             env=environment(TESSERA_EMULATOR_DELAY_US="0", XDG_STATE_HOME=state.name))
        self.addCleanup(self.server.stop)
        vgpu = lambda *words: subprocess.run([TESSERA, "vgpu", *words, "--server", self.server.url], capture_output=True, text=True, timeout=60,
                                             env=environment())
        for name in "ab":
            self.assertEqual(vgpu("create", name, "--request", "0.45").returncode, 0)
            self.tenant(name)
        broker = self.server.broker()

        def resident_mib():
            return int(status_of(broker)["VmRSS"].split()[0]) / 1024

        quiet_ms, count = control_flood.watch(port, 5)
        self.assertGreater(count, 20)
        memory_mib = resident_mib()
        flood = subprocess.Popen([control_flood.__file__, url(self.server), *(keys or [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        end_with_test(flood)
        self.assertEqual(flood.stdout.readline(), "begins\n")
        flooded_ms, count = control_flood.watch(port, 8)
        grown_mib = resident_mib() - memory_mib
        flood.stdin.close()
        did = json.loads(flood.stdout.read())
        self.assertEqual(flood.wait(30), 0)
        flood.stdout.close()
        said = f"99 of 100 changes of a holder: {quiet_ms:.2f} ms, {flooded_ms:.2f} beside {did}; {grown_mib:.0f} MiB more"
        print(said, file=sys.stderr, flush=True)
        for kind in control_flood.KINDS:
            self.assertGreaterEqual(did[kind]["connections"], control_flood.OF_KIND, said)
        self.assertGreater(did["changes"]["answers"], 0, said)
        self.assertGreater(did["random bytes"]["closed"], 0, said)
        self.assertGreater(count, 20, said)
        self.assertLessEqual(flooded_ms, max(5 * quiet_ms, 50), said)
        self.assertLess(grown_mib, 200, said)
        # It is there as before, for others too.
        self.assertEqual(self.server.broker(), broker, self.server.words()[-2000:])
        wait_for(lambda: "flood1" in vgpu("list").stdout, 30, "an answer of the control API, and what the flood has made")
        self.assertEqual(vgpu("resize", "a", "--limit", "0.9").returncode, 0)

    def test_by_users_of_the_host(self):
        self.check([], lambda server: f"unix:{server.path}.control")

    def test_while_the_server_waits_for_a_disk(self):
        """Of more changes than the broker keeps answers for, it has the last state to keep."""
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        self.server = Server("--default", "none", "--state", os.path.join(state.name, "state"), log="warning")
        self.addCleanup(self.server.stop)
        url = f"unix:{self.server.path}.control"
        broker = self.server.broker()
        shows = lambda: json.loads(subprocess.run([TESSERA, "vgpu", "list", "-o", "json", "--control", url], capture_output=True, text=True, timeout=60,
                                                  env=environment()).stdout or '{"vgpus": []}')["vgpus"]
        flood = subprocess.Popen([control_flood.__file__, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        end_with_test(flood)
        wait_for(lambda: "flood1" in [each["name"] for each in shows()], 30, "a change")
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            seen = []  # it is not always answered
            wait_for(lambda: seen.extend(each["revision"] for each in shows()) or (seen and max(seen) > min(seen) + 1500), 60, "many changes")
            flood.stdin.close()
            flood.wait(30)
            flood.stdout.close()
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)
        wait_for(shows, 30, "an answer")
        last = max(each["revision"] for each in shows())
        wait_for(lambda: f"revision {last}," in pathlib.Path(state.name, "state").read_text(), 30, "the last state on the disk")
        self.assertEqual(self.server.broker(), broker, self.server.words())

    def test_by_tls(self):
        keys = Keys()
        listen = ["--control", "tls://127.0.0.1:0", "--admin", "name:flood", *keys.options("server", "localhost,127.0.0.1")]
        self.check(listen, lambda server: re.search(r"control API at (tls://\S+)", server.ready).group(1), [keys.of("client", "flood")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
