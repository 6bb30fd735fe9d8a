#!/usr/bin/env python3
"""Addresses as people type them, also of agents, gateways and control APIs: paths and hosts without a scheme. The form that was understood stands in
what is said.

usage: typed_addresses_test.py BUILD_DIRECTORY
"""

import json
import os
import subprocess
import tempfile
import unittest

from product import AGENT, GATEWAY, HAS_CONTROL_API, TESSERA, Keys, Part, Server, environment, free_port, program, wait_for


class TypedAddresses(unittest.TestCase):
    def setUp(self):
        self.place = self.enterContext(tempfile.TemporaryDirectory())
        self.keys = Keys()

    def say(self, *words, code=0, **changes):
        done = subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=60, cwd=self.place, env=environment(**changes))
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def test_from_host_to_host(self):
        server = Server()
        port = free_port()
        gateway = Part(GATEWAY, "--listen", f"127.0.0.1:{port}", "--server", server.path, *self.keys.options("server", "localhost,127.0.0.1"))
        self.assertEqual(gateway.ready, f"tessera-gateway: listening on tls://127.0.0.1:{port}, server unix:{server.path}\n", gateway.words())
        agent = Part(AGENT, "--listen", f"{self.place}/agent.sock", "--server", f"localhost:{port}", *self.keys.options("client", "alice"))
        self.assertIn(f"unix:{self.place}/agent.sock", agent.ready, agent.words())
        self.assertIn(f"tls://localhost:{port}", agent.ready)
        for url in (f"{self.place}/agent.sock", "./agent.sock"):
            self.assertEqual(self.say("run", "-q", "--server", url, "--", program("count")), "1\n")
        self.assertEqual([part.stop() for part in (agent, gateway, server)], [0, 0, 0])

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_a_control_api(self):
        port = free_port()
        server = Server("--control", f"{self.place}/api", "--control", f"127.0.0.1:{port}", *self.keys.options("server", "localhost,127.0.0.1"))
        self.addCleanup(server.stop)
        self.assertIn(f"control API at tls://127.0.0.1:{port}", server.ready, server.words())
        known = self.keys.environment("client", "alice")
        for control in (f"{self.place}/api", "./api", f"localhost:{port}"):
            self.assertEqual(json.loads(self.say("vgpu", "list", "-o", "json", "--control", control, **known)), {"vgpus": []})
            self.assertEqual(json.loads(self.say("vgpu", "list", "-o", "json", TESSERA_CONTROL=control, **known)), {"vgpus": []})
        self.assertIn("('./no' is taken as unix:./no)", self.say("vgpu", "list", "--control", "./no", code=72))
        nobody = free_port()
        said = self.say("vgpu", "list", "--control", f"127.0.0.1:{nobody}", code=72, **known)
        self.assertIn(f"('127.0.0.1:{nobody}' is taken as tls://127.0.0.1:{nobody})", said)
        for control in ("tcp://127.0.0.1:1", "a:b", "unix:"):
            self.assertIn(f"'{control}' is no address of a control API", self.say("vgpu", "list", "--control", control, code=71))

    @unittest.skipUnless(HAS_CONTROL_API, "this build has no placer")
    def test_a_pool(self):
        placer = Part(os.path.join(os.path.dirname(TESSERA), "tessera-placer"), "--listen", f"{self.place}/placer", "--store", "memory")
        self.addCleanup(placer.stop)
        self.assertIn(f"unix:{self.place}/placer", placer.ready, placer.words())
        server = Server("--placer", f"{self.place}/placer")
        self.addCleanup(server.stop)
        wait_for(lambda: "offered" in self.say("get", "servers", TESSERA_PLACER="./placer"), 30, "the server's joining")
        self.assertEqual(self.say("run", "-q", "--placer", "./placer", "--gpu-share", "0.5", "--", program("count")), "1\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
