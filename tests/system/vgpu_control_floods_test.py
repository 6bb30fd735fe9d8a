#!/usr/bin/env python3
"""Floods of the control API: what they cost those who share a GPU, and what is left of them.

usage: vgpu_control_floods_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from product import TESSERA, Keys, Server, end_with_test, environment, free_port, status_of, wait_for
from users import ALICE, can_be_another
from vgpu_test import VgpuTest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import control_flood  # noqa: E402


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

        quiet_ms, count = control_flood.watch(port, 3)
        self.assertGreater(count, 20)
        memory_mib = resident_mib()
        flood = subprocess.Popen([control_flood.__file__, url(self.server), *(keys or [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        end_with_test(flood)
        self.assertEqual(flood.stdout.readline(), "begins\n")
        flooded_ms, count = control_flood.watch(port, 5)
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

    @unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
    def test_while_the_server_waits_for_a_disk(self):
        """Changes of another administrator wait for it and are answered then. A look is answered meanwhile, and the broker stays."""
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        file = pathlib.Path(state.name, "state")
        self.server = Server("--socket-mode", "666", "--admin", f"uid:{ALICE}", "--default", "none", "--state", str(file), log="warning")
        self.addCleanup(self.server.stop)
        os.chmod(self.server.directory.name, 0o755)
        url = f"unix:{self.server.path}.control"
        broker = self.server.broker()

        def shown():
            words = [TESSERA, "vgpu", "list", "-o", "json", "--control", url]
            # Administrators share a bound of calls, and the buffers of a server of gRPC: one look in some fifty is turned away.
            for _ in range(10):
                said = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
                if said.returncode != 72:
                    break
                time.sleep(0.1)
            self.assertEqual(said.returncode, 0, said.stderr)
            return json.loads(said.stdout)["vgpus"]

        def revision():
            return max([each["revision"] for each in shown()] or [0])

        flood = subprocess.Popen([control_flood.__file__, "--user", str(ALICE), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        end_with_test(flood)
        wait_for(lambda: "flood1" in [each["name"] for each in shown()], 30, "a change")
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            time.sleep(1)
            stands = revision()
            for _ in range(5):
                self.assertEqual(revision(), stands)
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)
        wait_for(lambda: revision() > stands + 500, 60, "many changes")
        flood.stdin.close()
        flood.wait(30)
        flood.stdout.close()
        time.sleep(0.5)
        last = revision()
        wait_for(lambda: f"revision {last}," in file.read_text(errors="replace"), 30, "the last state on the disk")
        self.assertEqual(self.server.broker(), broker, self.server.words())

    def test_by_tls(self):
        keys = Keys()
        listen = ["--control", "tls://127.0.0.1:0", "--admin", "name:flood", *keys.options("server", "localhost,127.0.0.1")]
        self.check(listen, lambda server: re.search(r"control API at (tls://\S+)", server.ready).group(1), [keys.of("client", "flood")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
