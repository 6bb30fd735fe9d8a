#!/usr/bin/env python3
"""What config.toml says to `tessera run` and to the commands of a pool.

usage: pool_config_test.py BUILD_DIRECTORY
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from pool import Pool
from pool_case import say
from product import TESSERA, environment

CONFIG = "tessera/config.toml"


class Config(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pool = Pool(devices=1)
        cls.addClassCleanup(cls.pool.stop)

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = place.name
        self.path = os.path.join(self.home, CONFIG)
        os.mkdir(os.path.dirname(self.path))

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)

    def run_job(self, *words, **changes):
        return subprocess.run([TESSERA, "run", *words, "--", "sh", "-c", 'cat "$TESSERA_TICKET" > /dev/null && echo has a ticket'], capture_output=True,
                              text=True, timeout=60, env=environment(XDG_CONFIG_HOME=self.home, **changes))

    def plan(self, *words):
        """What a job would have of its GPU."""
        [part] = json.loads(say("place", "--dry-run", *words, "-o", "json", XDG_CONFIG_HOME=self.home))["parts"]
        return part["gpus"][0]

    def test_the_placer_and_what_jobs_ask_for(self):
        self.write(f'placer = "{self.pool.url}"\ngpu-share = "0.25:0.5"\ngpu-mem = "1G"\nwait = 0\n')
        done = self.run_job()
        self.assertEqual((done.returncode, done.stdout), (0, "has a ticket\n"), done.stderr)
        self.assertIn(": 0.25 of its time, 1 GiB", done.stderr)
        done = self.run_job("--gpu-share", "0.75")
        self.assertIn(": 0.75 of its time, 1 GiB", done.stderr)
        self.assertEqual((self.plan()["share"], self.plan()["limit"]), (0.25, 0.5))
        self.assertEqual(self.plan("--gpu-mem", "2G")["memory_bytes"], 2 << 30)
        # The environment and the option come before the file, a server passes it by.
        for words, changes in ((("--placer", "unix:/nonexistent"), {}), ((), {"TESSERA_PLACER": "unix:/nonexistent"})):
            done = self.run_job(*words, **changes)
            self.assertEqual(done.returncode, 80, done.stderr)
            self.assertIn("no placer at /nonexistent", done.stderr)
        self.assertEqual(len(json.loads(say("get", "gpus", "-o", "json", XDG_CONFIG_HOME=self.home))["gpus"]), 1)
        done = self.run_job("--driver", "emulator")
        self.assertIn("private server", done.stderr)

    def test_a_wrong_file_is_named_with_line_and_key(self):
        for text, why in (("gpu-shar = 0.5", "there is no key 'gpu-shar': the nearest is 'gpu-share'"), ("gpus = 'two'", "which takes a number"),
                          ("placer = 'unix:/half", "the text of the key 'placer' has no closing quote")):
            self.write(f"# mine\n{text}\n")
            sentence = f"tessera: {self.path}, line 2: "
            done = self.run_job()
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertTrue(done.stderr.startswith(sentence) and why in done.stderr, done.stderr)
            for words in (("get", "gpus"), ("place", "--dry-run"), ("events",)):
                self.assertIn(why, say(*words, code=2, XDG_CONFIG_HOME=self.home))
            # Nobody is asked for it by whoever names a server.
            self.assertEqual(self.run_job("--driver", "emulator", "--quiet").stderr.count(CONFIG), 0)

    @unittest.skipUnless(shutil.which("strace"), "strace is missing")
    def test_what_it_costs_where_there_is_none(self):
        """Two files that are not there are looked for, and none where a server is named."""
        def looks(*words):
            trace = os.path.join(self.home, "trace")
            done = subprocess.run(["strace", "-o", trace, TESSERA, "run", *words, "--", "true"], capture_output=True, text=True, timeout=60,
                                  env=environment(XDG_CONFIG_HOME=self.home))
            with open(trace) as lines:
                return done.returncode, [line for line in lines if CONFIG in line]
        if os.path.exists("/etc/" + CONFIG):
            self.skipTest("this machine has a file of settings")
        code, lines = looks("--placer", self.pool.url)
        self.assertEqual((code, len(lines)), (0, 2), lines)
        for line in lines:
            self.assertRegex(line, r"\Aopen(at)?\(.* ENOENT ")
        code, lines = looks("--server", "unix:/nonexistent")
        self.assertEqual((code, lines), (72, []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
