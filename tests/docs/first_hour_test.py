#!/usr/bin/env python3
"""The first hour of a newcomer, by docs/two-machines.md alone: two hosts that have nothing but the programs, each with a network and a home
of its own; as root, as an ordinary user, and as such that lack something.

usage: first_hour_test.py BUILD_DIRECTORY
The hosts are namespaces of networks: it needs root and ip(8); without them it is skipped (77) and says so. PREFIX of an unpacked archive
in TESSERA_PREFIX: its programs instead of the build's.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))

import product  # noqa: E402
from page import Page  # noqa: E402
from users import can_be_another  # noqa: E402

SERVER, LAPTOP = "10.77.0.1", "10.77.0.2"
# No account has it, and no other run of this test: the place in /tmp of a user without XDG_RUNTIME_DIR goes by it.
USER = 72000 + os.getpid() % 20000
PORT = 4180
PREFIX = os.environ.get("TESSERA_PREFIX", product.BUILD)


class Host:
    """A namespace of networks, kept by a process that waits."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up; echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def words(self):
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--"]

    def has(self, device, address):
        for words in (("addr", "add", f"{address}/24", "dev", device), ("link", "set", device, "up")):
            subprocess.run([*self.words(), "ip", *words], check=True)

    def end(self):
        self.process.communicate(b"\n")


class TwoHosts(Page):
    """The page, where the block that serves is typed on one host and all others on the other. `leaves_out`: variables that a reader lacks."""

    def __init__(self, server, laptop, user=0, drops=False, leaves_out=()):
        super().__init__("two-machines.md", **{"gpu7.example": SERVER})
        self.server, self.laptop, self.user, self.drops, self.leaves_out = server, laptop, user, drops, leaves_out
        os.chmod(self.home, 0o755)

    def __enter__(self):
        super().__enter__()
        if self.user:
            subprocess.run(["chown", "-R", f"{self.user}:{self.user}", self.home], check=True)
        return self

    def shell(self, line, serves):
        words = (self.server if serves else self.laptop).words()
        if "HOME" in self.leaves_out:
            line = f"declare +x HOME={self.home}; {line}"  # the page's ~ is there for the shell, and for no program
        if self.user:
            words += ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        if self.drops:
            words += ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        return [*words, "bash", "-c", line]

    def is_root(self):
        return self.user == 0

    def environment(self):
        env = super().environment()
        env["PATH"] = f"{PREFIX}/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        for name in self.leaves_out:
            env.pop(name, None)
        return env

    def change_hosts(self, number):
        """Each host has its own files, where the page says."""
        for block, name in ((1, SERVER), (2, "alice")):
            if number == block:
                place = f"{self.home}/.config/tessera"
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(f"{self.home}/gpu-keys/{name}", place)
                if self.user:
                    subprocess.run(["chown", "-R", f"{self.user}:{self.user}", place], check=True)


class FirstHour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(shutil.rmtree, f"/tmp/tessera-{USER}", ignore_errors=True)
        cls.server, cls.laptop = Host(), Host()
        subprocess.run([*cls.server.words(), "ip", "link", "add", "wire", "type", "veth", "peer", "name", "other", "netns",
                        str(cls.laptop.process.pid)], check=True)
        cls.server.has("wire", SERVER)
        cls.laptop.has("other", LAPTOP)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        cls.laptop.end()

    def follow(self, **reader):
        with TwoHosts(self.server, self.laptop, **reader) as page:
            said = page.follow(page.change_hosts)
        self.assertEqual(said[f"tessera run --server tls://{SERVER}:{PORT} -- ./program"].splitlines()[-1], "1")

    def test_root(self):
        self.follow()

    @unittest.skipUnless(can_be_another(), "others cannot read this build")
    def test_an_ordinary_user(self):
        self.follow(user=USER)

    @unittest.skipUnless(can_be_another(), "others cannot read this build")
    def test_without_a_directory_for_sockets(self):
        self.follow(user=USER, leaves_out=("XDG_RUNTIME_DIR",))

    def test_root_without_a_home(self):
        self.follow(leaves_out=("HOME",))

    @unittest.skipUnless(can_be_another(), "others cannot read this build")
    def test_an_ordinary_user_without_a_home(self):
        self.follow(user=USER, leaves_out=("HOME", "XDG_RUNTIME_DIR"))

    def test_root_without_capabilities(self):
        self.follow(drops=True)


if __name__ == "__main__":
    WIRE = ["unshare", "--net", "ip", "link", "add", "one", "type", "veth", "peer", "name", "other"]
    if os.geteuid() != 0 or shutil.which("ip") is None or subprocess.run(WIRE, capture_output=True).returncode != 0:
        print("skipped: it needs root, ip(8), and namespaces of networks that a wire may join")
        sys.exit(77)
    unittest.main()
