#!/usr/bin/env python3
"""The units of deploy/systemd, and what services tell systemd: a socket of this test listens in its place.

usage: units_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
UNITS = ROOT / "deploy/systemd"
WATCHDOG_S = 0.6
WITH_SYSTEMD = unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")


class Units(unittest.TestCase):
    @WITH_SYSTEMD
    def test_systemd_takes_them(self):
        for user in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                for unit in UNITS.glob("*.service"):
                    if unit.name.startswith("user-") == user:
                        # Installed nowhere on this machine, perhaps.
                        text = unit.read_text().replace("/usr/bin/tessera", f"{BUILD}/bin/tessera")
                        pathlib.Path(directory, unit.name.removeprefix("user-")).write_text(text)
                units = [str(path) for path in pathlib.Path(directory).iterdir()]
                self.assertTrue(units)
                done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(["--user"] if user else []), *units],
                                      capture_output=True, text=True, timeout=60, env={**os.environ, "XDG_RUNTIME_DIR": directory})
                said = [line for line in done.stderr.splitlines() if directory in line or "tessera" in line]
                self.assertEqual((done.returncode, said), (0, []))

    @WITH_SYSTEMD
    def test_exposure_is_what_the_readme_says(self):
        rows = re.findall(r"^\| `([\w-]+\.service)` \| ([\d.]+) \|", (UNITS / "README.md").read_text(), re.MULTILINE)
        self.assertEqual(len(rows), 3)
        for unit, most in rows:
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", str(UNITS / unit)], capture_output=True, text=True, timeout=60)
            self.assertLessEqual(float(re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)[1]), float(most), unit)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "root alone gives up what a unit takes")
    def test_workers_have_what_they_need(self):
        kept = re.search(r"^CapabilityBoundingSet=(.*)$", (UNITS / "tesserad.service").read_text(), re.MULTILINE)[1].split()
        bounding = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in kept)])
        check = [BUILD / "bin/tesserad", "--check-sandbox"]

        def ask(*words):
            return subprocess.run([*words, *check], capture_output=True, text=True, timeout=60).stdout
        self.assertEqual(ask("setpriv", "--no-new-privs", "--bounding-set", bounding, "--inh-caps", "-all", "--"), ask())
        self.assertNotEqual(ask("setpriv", "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all", "--"), ask())

    @WITH_SYSTEMD
    def test_a_pools_services_may_enter_their_sandbox(self):
        """A call that a unit does not let through ends the service."""
        def calls(words):
            found = set()
            for word in words:
                if not word.startswith("@"):
                    found.add(word)
                    continue
                done = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, timeout=60, check=True)
                # systemd 255 writes the ends of colours also where no terminal is.
                lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()[1:]
                found |= calls(line.strip() for line in lines if not line.strip().startswith("#"))
            return found
        for unit in ("tessera-node", "tessera-placer"):
            allowed = set()
            for value in re.findall(r"^SystemCallFilter=(.*)$", (UNITS / f"{unit}.service").read_text(), re.MULTILINE):
                named = calls(value.lstrip("~").split())
                allowed = allowed - named if value.startswith("~") else allowed | named
            self.assertLessEqual({"capset", "prctl", "setgroups", "setresgid", "setresuid", "unshare", "seccomp", "landlock_create_ruleset",
                                  "landlock_add_rule", "landlock_restrict_self", "fork", "close_range", "memfd_create"}, allowed, unit)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv") and (BUILD / "bin/tessera-placer").exists(), "root alone gives up what a unit takes")
    def test_a_placer_becomes_another_user(self):
        kept = re.search(r"^CapabilityBoundingSet=(.*)$", (UNITS / "tessera-placer.service").read_text(), re.MULTILINE)[1].split()
        bounding = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in kept)])
        with tempfile.TemporaryDirectory() as directory:
            placer = subprocess.Popen(["setpriv", "--no-new-privs", "--bounding-set", bounding, "--inh-caps", "-all", "--", BUILD / "bin/tessera-placer",
                                       "--listen", f"unix:{directory}/socket", "--store", f"sqlite:{directory}/store"], stdout=subprocess.PIPE, text=True)
            self.addCleanup(placer.stdout.close)
            self.addCleanup(placer.kill)
            self.assertIn("listening on", placer.stdout.readline())
            status = pathlib.Path(f"/proc/{placer.pid}/status").read_text()
            self.assertRegex(status, r"\nUid:\t65527\t65527\t65527\t65527\n")
            self.assertRegex(status, r"\nCapPrm:\t0+\n")
            placer.terminate()
            self.assertEqual(placer.wait(20), 0)
            self.assertFalse(os.path.exists(f"{directory}/socket"))
            # Without what it needs it does not begin where it has to, and leaves nothing either.
            refused = subprocess.run(["setpriv", "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all", "--", BUILD / "bin/tessera-placer",
                                      "--listen", f"unix:{directory}/socket", "--store", "memory", "--sandbox", "require"], capture_output=True, text=True,
                                     timeout=60)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("the sandbox is not complete: placers run as root", refused.stderr)
            self.assertFalse(os.path.exists(f"{directory}/socket"))


class Notices(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(self.directory + "/notify")
        self.socket.settimeout(20)
        self.server_path = self.directory + "/server.sock"

    def start(self, program, *words, address=None, **more):
        env = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
        env.update(NOTIFY_SOCKET=address or self.directory + "/notify", XDG_STATE_HOME=self.directory, XDG_CACHE_HOME=self.directory)
        env.update(more)
        process = subprocess.Popen([BUILD / "bin" / program, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def end():
            process.kill()
            process.wait()
            process.stdout.close()
        self.addCleanup(end)
        return process

    def tesserad(self, **more):
        return self.start("tesserad", "--listen", f"unix:{self.server_path}", "--driver", "emulator", "--grace", "0", **more)

    def hear(self, first):
        """The next message that is no beat."""
        while (text := self.socket.recv(4096).decode()) == "WATCHDOG=1":
            pass
        self.assertTrue(text.startswith(first), text)
        return text

    def hear_beats(self):
        """Three, in the time that the watchdog gives to them."""
        start = time.monotonic()
        for _ in range(3):
            self.assertEqual(self.socket.recv(4096), b"WATCHDOG=1")
        self.assertLess(time.monotonic() - start, 3 * WATCHDOG_S)

    def ends(self, process):
        process.send_signal(signal.SIGTERM)
        self.hear("STOPPING=1\nSTATUS=")
        self.assertEqual(process.wait(20), 0)

    def test_tesserad(self):
        daemon = self.tesserad(WATCHDOG_USEC=str(int(WATCHDOG_S * 1e6)))
        self.assertIn(f"STATUS=unix:{self.server_path}", self.hear("READY=1\n"))
        self.hear_beats()
        daemon.send_signal(signal.SIGHUP)
        self.assertRegex(self.hear("RELOADING=1\n"), r"MONOTONIC_USEC=\d+$")
        self.assertEqual(self.hear("READY=1"), "READY=1")  # its status stays
        # Children would speak for it.
        children = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        self.assertTrue(children)
        for child in children:
            self.assertNotIn(b"NOTIFY_SOCKET", pathlib.Path(f"/proc/{child}/environ").read_bytes())
        self.ends(daemon)

    def test_a_watchdog_of_another_process(self):
        daemon = self.tesserad(WATCHDOG_USEC="100000", WATCHDOG_PID="1")
        self.hear("READY=1\n")
        self.socket.settimeout(0.5)
        self.assertRaises(TimeoutError, self.socket.recv, 4096)
        self.socket.settimeout(20)
        self.ends(daemon)

    def test_addresses_that_are_none(self):
        for number, address in enumerate(("/no/such/socket", "relative", "@", "/" + "x" * 200, "@nobody" + self.directory)):
            self.server_path = f"{self.directory}/{number}.sock"
            daemon = self.tesserad(address=address, WATCHDOG_USEC="nonsense")
            self.assertIn("listening", daemon.stdout.readline())
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(20), 0, address)

    def test_node(self):
        server = self.tesserad(address="/no/such/socket")
        self.assertIn("listening", server.stdout.readline())
        node = self.start("tessera-node", "--placer", f"unix:{self.directory}/placer.sock", "--server", f"unix:{self.server_path}",
                          WATCHDOG_USEC="2400000")
        self.hear("READY=1\nSTATUS=")
        self.assertEqual(self.socket.recv(4096), b"WATCHDOG=1")
        node.send_signal(signal.SIGHUP)
        self.hear("RELOADING=1\n")
        self.assertEqual(self.hear("READY=1"), "READY=1")
        self.ends(node)

    def test_placer(self):
        placer = self.start("tessera-placer", "--listen", f"unix:{self.directory}/placer.sock", "--store", "memory",
                            WATCHDOG_USEC=str(int(WATCHDOG_S * 1e6)))
        self.hear("READY=1\nSTATUS=unix:")
        self.hear_beats()
        self.ends(placer)


if __name__ == "__main__":
    unittest.main(verbosity=2)
