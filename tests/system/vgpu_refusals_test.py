#!/usr/bin/env python3
"""Who may not use a vGPU, and what cannot be one.

usage: vgpu_refusals_test.py BUILD_DIRECTORY
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import unittest

from product import CLIENT, Server, environment, program, wait_for
from vgpu_test import VgpuTest, vgpu


class Refusals(VgpuTest):
    def test_names_that_nobody_may_use(self):
        self.serve(vgpu("mine", 0.2), vgpu("foreign", 0.2, owners=["uid:4242"]))
        self.assertEqual(self.run_in("mine", program("count")).returncode, 0)
        unknown = self.run_in("yours", program("count"))
        foreign = self.run_in("foreign", program("count"))
        for done in unknown, foreign:
            self.assertEqual(done.returncode, 79, done.stderr)
        # One cannot be told from the other.
        self.assertEqual(unknown.stderr.replace("yours", "NAME"), foreign.stderr.replace("foreign", "NAME"))
        none = self.run_in(None, program("count"))
        self.assertEqual(none.returncode, 79, none.stderr)
        self.assertIn("--vgpu", none.stderr)
        # The library by itself.
        for changes in {"TESSERA_VGPU": "yours"}, {}:
            alone = subprocess.run([program("count")], capture_output=True, text=True, timeout=60,
                                   env=environment(TESSERA_SERVER=self.server.url, LD_LIBRARY_PATH=CLIENT, **changes))
            self.assertNotEqual(alone.stdout, "1\n")
            self.assertEqual(alone.stderr.count("vGPU"), 1, alone.stderr)

    def test_the_limit_of_sessions_holds_for_those_that_ask_at_once(self):
        self.serve(vgpu("a", 0.5), options=("--max-sessions", "2", "--start-wait", "2"))
        broker = self.server.broker()
        os.kill(broker, signal.SIGSTOP)
        words = [program("spin")]
        alone = environment(TESSERA_SERVER="unix:" + self.server.path, LD_LIBRARY_PATH=CLIENT, TESSERA_VGPU="a")
        clients = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=alone) for _ in range(6)]
        for client in clients:
            self.addCleanup(self.end, client)
        time.sleep(1)  # all have asked
        with contextlib.suppress(ProcessLookupError):  # on a busy machine the server has started another one by now
            os.kill(broker, signal.SIGCONT)
        wait_for(lambda: self.server.words().count("its limit") == 4, 20, "the refusals")
        self.assertEqual(len(self.server.workers()), 2)

    def test_who_names_no_vgpu_of_a_full_server_that_needs_one_is_told_that_first(self):
        self.serve(vgpu("a", 0.5), options=("--default", "none", "--max-sessions", "1", "--start-wait", "1"))
        self.tenant("a")
        self.assertEqual([self.run_in(name, program("count")).returncode for name in (None, "nowhere", "a")], [79, 79, 83])

    def test_a_server_without_vgpus(self):
        self.server = Server("--no-vgpus")
        self.addCleanup(self.server.stop)
        self.assertIsNone(self.server.broker())
        done = self.run_in("train", program("count"))
        self.assertEqual(done.returncode, 79, done.stderr)
        self.assertIn("no vGPUs", done.stderr)
        self.assertEqual(self.run_in(None, program("count")).returncode, 0)

    def test_files_that_cannot_be(self):
        for text, word in ((vgpu("a", 0.7) + vgpu("b", 0.4), "0.4"), (vgpu("a", 1.5), "request"), (vgpu("", 0.5), "name"),
                           (vgpu("a", 0.5, 0.3), "limit"), (vgpu("a", 0.1, gpu=7), "gpu"), ("[[vgpu", "line"), ("3\na 0 1 1\n", "3")):
            with self.subTest(text=text):
                with tempfile.NamedTemporaryFile("w") as file:
                    file.write(text)
                    file.flush()
                    server = Server("--vgpus", file.name)
                self.assertEqual(server.ready, "")
                self.assertEqual(server.process.wait(20), 2)
                self.assertIn(word, server.words())
                server.discard()


if __name__ == "__main__":
    unittest.main(verbosity=2)
