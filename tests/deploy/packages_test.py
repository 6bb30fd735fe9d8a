#!/usr/bin/env python3
"""The Debian packages: lintian, installed into a fresh root, the README's first program there, an upgrade while a session runs, removed.
README.md says what it needs.

usage: packages_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PACKAGES = ("tessera", "tessera-server", "tessera-placer")
MIRRORS = {"debian": ("http://deb.debian.org/debian", "main"), "ubuntu": ("http://archive.ubuntu.com/ubuntu", "main,universe")}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def distribution():
    words = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return words["ID"].strip('"'), words["VERSION_CODENAME"].strip('"')


def run(*words, timeout=300, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def debs(directory):
    return [str(next(pathlib.Path(directory).glob(f"{name}_*.deb"))) for name in PACKAGES]


def next_revision(deb, directory):
    """A package of the same content with a higher revision: all its files are written anew."""
    work = tempfile.mkdtemp(dir=directory)
    run("dpkg-deb", "-R", deb, work)
    control = pathlib.Path(work, "DEBIAN/control")
    control.write_text(re.sub(r"-1~", "-2~", control.read_text()))
    run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "-b", work, directory / os.path.basename(deb).replace("-1~", "-2~"))
    shutil.rmtree(work)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.debs = debs(BUILD / "packages")
        given = os.environ.get("TESSERA_FRESH_ROOT")
        cls.root = pathlib.Path(given or tempfile.mkdtemp(prefix="tessera_root_"))
        if not given:
            cls.addClassCleanup(shutil.rmtree, cls.root)
        if not (cls.root / "etc/os-release").exists():
            name, codename = distribution()
            mirror, components = MIRRORS[name]
            run("debootstrap", "--variant=minbase", f"--components={components}", codename, cls.root, mirror, timeout=600)
        # A process whose mounts are seen by nobody else; all others are started beside it.
        cls.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                       f"mount --bind {cls.root} {cls.root} && mount -t proc proc {cls.root}/proc && mount --rbind /dev {cls.root}/dev && echo ready && exec sleep 3600"],
                                      stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.holder.wait)
        cls.addClassCleanup(cls.holder.kill)
        assert cls.holder.stdout.readline() == "ready\n"
        work = cls.root / "tmp/packages"
        shutil.rmtree(work, ignore_errors=True)
        (work / "next").mkdir(parents=True)
        for deb in cls.debs:
            shutil.copy(deb, work)
            next_revision(deb, work / "next")
        include = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
        for name, source in (("saxpy", "deploy/demo/saxpy_ptx.cc"), ("load", "tests/system/programs/load.cc")):
            run("g++", "-O1", "-std=c++20", f"-I{include}", f"-I{ROOT}", "-o", work / name, ROOT / source, f"-L{BUILD}/lib/client",
                "-l:libcuda.so.1", "-pthread")
        shutil.copy(ROOT / "deploy/demo/saxpy.ptx", work)
        cls.work = "/tmp/packages"
        cls.inside("apt-get", "update", "-q")

    @classmethod
    def start(cls, *words, **options):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        return subprocess.Popen(["nsenter", f"--mount=/proc/{cls.holder.pid}/ns/mnt", "chroot", str(cls.root), *words], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, **options)

    @classmethod
    def inside(cls, *words, code=0, timeout=300):
        process = cls.start(*words)
        out = process.communicate(timeout=timeout)[0]
        assert process.returncode == code, f"{words}: {process.returncode}\n{out}"
        return out

    def install(self, *patterns):
        files = [file for pattern in patterns for file in self.inside("sh", "-c", f"ls {self.work}/{pattern}").split()]
        return self.inside("apt-get", "install", "-y", "-q", "--no-install-recommends", *files)

    def test_lintian_has_no_errors(self):
        done = subprocess.run(["lintian", "--fail-on", "error", *self.debs], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_installed_used_upgraded_removed(self):
        self.addCleanup(self.inside, "dpkg", "--purge", *reversed(PACKAGES))
        # A host of programs alone.
        self.install("tessera_*.deb")
        self.assertIn("package tessera-server", self.inside("tessera", "run", "--", "true", code=76))
        self.assertIn("tessera-admin", self.inside("tessera", "vgpu", "list", code=76))
        # And all of it.
        self.install("*.deb")
        self.assertIn("correct", self.inside("tessera", "run", "--", f"{self.work}/saxpy", f"{self.work}/saxpy.ptx"))
        self.assertNotIn("tessera", self.inside("ldconfig", "-p"))
        for deb in self.debs:
            self.assertNotRegex(run("dpkg-deb", "-I", deb), r"(pre|post)(inst|rm)")
        self.upgrade_while_a_session_runs()
        self.inside("apt-get", "remove", "-y", "-q", *PACKAGES)
        self.assertEqual(self.inside("sh", "-c", "find /usr /etc -name '*tessera*'").strip(), "")

    def upgrade_while_a_session_runs(self):
        server = self.start("tesserad", "--listen", "unix:/tmp/packages/server.sock", "--driver", "emulator", "--state", "none")
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        while "listening" not in line:
            self.assertNotEqual(line, "", "the server has ended")
            line = server.stdout.readline()
        saxpy = ("tessera", "run", "--server", "unix:/tmp/packages/server.sock", "--", f"{self.work}/saxpy", f"{self.work}/saxpy.ptx")
        self.assertIn("correct", self.inside(*saxpy))
        session = self.start("tessera", "run", "--server", "unix:/tmp/packages/server.sock", "--", f"{self.work}/load", "--seconds", "45")
        time.sleep(2)
        self.install("next/*.deb")
        self.assertIn("-2~", self.inside("dpkg-query", "-W", "tessera-server"))
        self.assertIsNone(session.poll(), "the session ended before the upgrade did")
        # The server is the one of before, and still has clients.
        self.assertIsNone(server.poll())
        self.assertIn("correct", self.inside(*saxpy))
        out = session.communicate(timeout=120)[0]
        self.assertEqual(session.returncode, 0, out)
        server.terminate()
        self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    if os.geteuid() != 0:
        skip("root alone makes a fresh root")
    for program in ("debootstrap", "lintian", "nsenter", "unshare", "g++"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    if len(list((BUILD / "packages").glob("*.deb"))) < len(PACKAGES):
        sys.exit("there are no packages: make packages")
    unittest.main(verbosity=2)
