#!/usr/bin/env python3
"""What `tessera doctor` finds of a pool: its placer, one's role there, settings, the job's tickets.

usage: pool_doctor_test.py BUILD_DIRECTORY
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from pool import Pool
from product import BUILD, TESSERA, Keys, environment

SUBJECTS = {"configuration", "placer", "role", "clock", "pool", "ticket"}


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = Keys()
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        policy = os.path.join(cls.place.name, "policy.toml")
        with open(policy, "w") as file:
            file.write('[roles]\n"name:alice" = "tenant"\n"name:wall" = "viewer"\nothers = "nobody"\n')
        cls.pool = Pool("--listen", "tls://127.0.0.1:0", *cls.keys.options("server", "localhost,127.0.0.1"), "--policy", policy, devices=1)
        cls.addClassCleanup(cls.pool.stop)
        cls.url = re.search(r"tls://127.0.0.1:\d+", cls.pool.placer.ready).group()
        cls.server = "unix:" + cls.pool.servers[0].path

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = place.name
        os.mkdir(os.path.join(self.home, "tessera"))

    def look(self, *words, code=0, tessera=TESSERA, **changes):
        """Findings about a pool: (grade, text, advice) by subject."""
        changes = {"XDG_CONFIG_HOME": self.home, "HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/nonexistent", **changes}
        done = subprocess.run([tessera, "doctor", "--server", self.server, "-o", "json", *words], capture_output=True, text=True, timeout=60,
                              env=environment(**changes))
        self.assertEqual((done.returncode, done.stderr), (code, ""), done.stdout)
        found = {}
        for finding in json.loads(done.stdout)["findings"]:
            if finding["subject"] in SUBJECTS:
                self.assertEqual("advice" in finding, finding["grade"] != "good", finding)
                found.setdefault(finding["subject"], []).append((finding["grade"], finding["text"]))
        return found

    def test_a_placer_that_answers(self):
        found = self.look(TESSERA_PLACER=self.pool.url)
        (_, address), (grade, text) = found["placer"]
        self.assertIn(f"its address is {self.pool.url} (TESSERA_PLACER); jobs here do not ask it", address)
        release = subprocess.run([TESSERA, "--version"], capture_output=True, text=True).stdout.split()[1]
        self.assertEqual((grade, text), ("good", f"{self.pool.url} answers: tessera-placer {release} of the pool 'default'"))
        self.assertEqual(found["role"], [("good", f"the placer sees uid:{os.getuid()}, an administrator, who may do everything")])
        self.assertEqual(found["clock"], [("good", "this host's is that of the placer")])
        self.assertEqual(found["pool"], [("good", "1 server with 1 GPU, all of them offered")])
        self.assertEqual(set(found), {"placer", "role", "clock", "pool"})
        self.assertIn("(--placer)", self.look("--placer", self.pool.url)["placer"][0][1])
        path = self.pool.url.removeprefix("unix:")
        self.assertIn(f"its address is {self.pool.url} (--placer) ('{path}' is taken as {self.pool.url})", self.look("--placer", path)["placer"][0][1])

    def test_nothing_of_a_pool(self):
        if os.path.exists("/etc/tessera/config.toml") or os.path.exists("/run/tessera/placer.sock"):
            self.skipTest("this machine has something of a pool")
        self.assertEqual(self.look(), {})

    def test_settings(self):
        path = os.path.join(self.home, "tessera/config.toml")
        with open(path, "w") as file:
            file.write(f"gpu-share = 0.5\nplacer = '{self.pool.url}'\n")
        found = self.look()
        self.assertEqual(found["configuration"], [("good", f"{path} has gpu-share, placer")])
        self.assertIn(f"({path}, line 2)", found["placer"][0][1])
        self.assertEqual(len(found["role"]), 1)
        with open(path, "w") as file:
            file.write("gpu-share = 5\n")
        found = self.look(code=1, TESSERA_PLACER=self.pool.url)
        [(grade, text)] = found["configuration"]
        self.assertEqual(grade, "problem")
        self.assertTrue(text.startswith(f"{path}, line 1: "), text)
        self.assertNotIn("placer", found)

    def test_roles_by_certificates(self):
        for name, code, grade, text in (("alice", 0, "good", "a tenant"), ("wall", 0, "note", "a viewer"), ("stranger", 1, "problem", "who has no role")):
            found = self.look("--placer", self.url, code=code, **self.keys.environment("client", name))
            [(said, why)] = found["role"]
            self.assertEqual(said, grade)
            self.assertIn(f"the placer sees name:{name}, {text}", why)
            self.assertEqual("pool" in found, name != "stranger")
        found = self.look("--placer", self.url, code=1)
        self.assertIn("there is no certificate", found["placer"][1][1])
        # The files that a file of settings names.
        with open(os.path.join(self.home, "tessera/config.toml"), "w") as file:
            file.writelines(f"{name[8:].lower()} = '{path}'\n" for name, path in self.keys.environment("client", "alice").items())
        self.assertIn("name:alice", self.look("--placer", self.url)["role"][0][1])

    def test_a_placer_that_does_not_answer(self):
        found = self.look("--placer", "unix:/nonexistent", code=1)
        self.assertEqual(found["placer"][1], ("problem", "no placer at /nonexistent: No such file or directory; start tessera-placer, or correct its address"))
        self.assertEqual(set(found), {"placer"})
        self.pool.placer.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.pool.placer.process.send_signal, signal.SIGCONT)
        began = time.monotonic()
        found = self.look("--placer", self.pool.url, code=1)
        self.assertEqual(found["placer"][1][0], "problem")
        self.assertLess(time.monotonic() - began, 5 + 10)  # programs take a moment to start

    def test_without_the_program_that_asks(self):
        prefix = os.path.join(self.home, "prefix")
        for part in ("bin/tessera", "bin/tesserad", "bin/tessera-agent", "bin/tessera-gateway", "lib/client/libcuda.so.1", "lib/client/libnvidia-ml.so.1"):
            os.makedirs(os.path.dirname(os.path.join(prefix, part)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, part), os.path.join(prefix, part))
        found = self.look("--placer", self.pool.url, code=1, tessera=os.path.join(prefix, "bin/tessera"))
        self.assertEqual(found["placer"][1][0], "problem")
        self.assertIn("cannot start", found["placer"][1][1])

    def test_the_ticket_of_a_job(self):
        done = self.pool.run("--quiet", "--gpu-share", "0.5", "--", TESSERA, "doctor", "-o", "json", XDG_CONFIG_HOME=self.home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        [ticket] = [finding for finding in json.loads(done.stdout)["findings"] if finding["subject"] == "ticket"]
        self.assertEqual(ticket["grade"], "good")
        self.assertRegex(ticket["text"], rf"is for uid:{os.getuid()} at server \S+ of the pool 'default', grant [0-9a-f]{{32}}, until 20")
        [(grade, text)] = self.look(code=1, TESSERA_TICKET="/nonexistent/ticket-0")["ticket"]
        self.assertEqual(grade, "problem")
        self.assertIn("/nonexistent/ticket-0", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
