#!/usr/bin/env python3
"""The Debian packages: lintian, installed into a fresh root, the README's first program there, an upgrade while a session runs, removed.
README.md says what it needs.

usage: packages_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from fresh_root import PACKAGES, FreshRoot, built_packages, compile_programs, next_revision, run, skip_without

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SETTINGS = "/etc/tessera/tesserad.toml"


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.debs = built_packages(BUILD)
        cls.root = FreshRoot()
        cls.addClassCleanup(cls.root.close)
        cls.inside, cls.start = cls.root.inside, cls.root.start
        work = cls.root.path / "tmp/packages"
        shutil.rmtree(work, ignore_errors=True)
        (work / "next").mkdir(parents=True)
        for deb in cls.debs:
            shutil.copy(deb, work)
            next_revision(deb, work / "next")
        compile_programs(ROOT, BUILD, work)
        cls.work = "/tmp/packages"
        cls.inside("apt-get", "update", "-q")

    def install(self, *patterns):
        return self.root.install(*(file for pattern in patterns for file in self.inside("sh", "-c", f"ls {self.work}/{pattern}").split()))

    def test_lintian_has_no_errors(self):
        done = subprocess.run(["lintian", "--fail-on", "error", *self.debs], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_installed_used_upgraded_removed(self):
        self.addCleanup(self.inside, "dpkg", "--purge", *reversed(PACKAGES))
        # A host of programs alone.
        self.install("tessera_*.deb")
        self.assertIn("package tessera-server", self.inside("tessera", "run", "--", "true", code=76))
        self.assertIn("package tessera-placer", self.inside("tessera", "vgpu", "list", code=76))
        # And all of it.
        self.install("*.deb")
        self.assertIn("correct", self.inside("tessera", "run", "--", f"{self.work}/saxpy", f"{self.work}/saxpy.ptx"))
        self.assertNotIn("tessera", self.inside("ldconfig", "-p"))
        for deb in self.debs:
            self.assertNotRegex(run("dpkg-deb", "-I", deb), r"(pre|post)(inst|rm)")
        self.half_configured()
        self.upgrade_while_a_session_runs()
        self.inside("apt-get", "remove", "-y", "-q", *PACKAGES)
        self.assertEqual(self.left(), ["/etc/tessera", SETTINGS])
        self.inside("dpkg", "--purge", *PACKAGES)
        self.assertEqual(self.left(), [])

    def half_configured(self):
        """Packages that are unpacked alone: only their settings are not there."""
        self.inside("dpkg", "--purge", *reversed(PACKAGES))
        self.inside("sh", "-c", f"dpkg --unpack {self.work}/*.deb")
        self.assertNotIn(SETTINGS, self.left())
        self.assertIn("correct", self.inside("tessera", "run", "--", f"{self.work}/saxpy", f"{self.work}/saxpy.ptx"))
        self.inside("dpkg", "--configure", "--pending")
        self.assertIn(SETTINGS, self.left())

    def left(self):
        return sorted(self.inside("find", "/usr", "/etc", "-name", "*tessera*").split())

    def upgrade_while_a_session_runs(self):
        server = self.start("tesserad", "--listen", "unix:/tmp/packages/server.sock", "--driver", "emulator", "--state", "none")
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        while "listening" not in line:
            self.assertNotEqual(line, "", "the server has ended")
            line = server.stdout.readline()
        saxpy = ("tessera", "run", "--server", "unix:/tmp/packages/server.sock", "--", f"{self.work}/saxpy", f"{self.work}/saxpy.ptx")
        self.assertIn("correct", self.inside(*saxpy))
        session = self.start("tessera", "run", "--server", "unix:/tmp/packages/server.sock", "--", f"{self.work}/load", "--seconds", "90")
        while json.loads(self.inside("tessera", "status", "--server", "unix:/tmp/packages/server.sock", "-o", "json"))["servers"][0]["sessions"] == 0:
            self.assertIsNone(session.poll(), "the session has ended")
            time.sleep(0.2)
        settings = self.root.path / SETTINGS[1:]
        settings.write_text(settings.read_text() + "max-sessions = 7\n")
        self.install("next/*.deb")
        self.assertIn("max-sessions = 7\n", settings.read_text())
        self.assertIn("-2~", self.inside("dpkg-query", "-W", "tessera-server"))
        self.assertIsNone(session.poll(), "the session ended before the upgrade did")
        # The server is the one of before, and still has clients.
        self.assertIsNone(server.poll())
        self.assertIn("correct", self.inside(*saxpy))
        out = session.communicate(timeout=300)[0]
        self.assertEqual(session.returncode, 0, out)
        server.terminate()
        self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    skip_without("debootstrap", "lintian", "nsenter", "unshare", "g++")
    unittest.main(verbosity=2)
