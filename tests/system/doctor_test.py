#!/usr/bin/env python3
"""`tessera doctor`: what it finds, what it advises, its exit code.

usage: doctor_test.py BUILD_DIRECTORY
"""

import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

from bad_input import ServerOfNobody, reachable_by_nobody
from product import BUILD, CLIENT, DAEMON, TESSERA, Gateway, Server, environment, program

WITH_PATCHELF = unittest.skipUnless(shutil.which("patchelf"), "patchelf is missing")


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()  # one to look at: a private one takes longer

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def doctor(self, *words, code=0, tessera=TESSERA, server=None, before=None, **variables):
        """The findings by subject: each is a list of (grade, text, advice)."""
        done = subprocess.run([tessera, "doctor", "--server", server or self.server.url, "-o", "json", *words], capture_output=True, text=True,
                              timeout=60, env=environment(**variables), preexec_fn=before)
        self.assertEqual((done.returncode, done.stderr), (code, ""), done.stdout)
        report = json.loads(done.stdout)
        self.assertEqual(report["good"], code == 0)
        findings = {}
        for finding in report["findings"]:
            self.assertTrue(finding["grade"] == "good" or finding["advice"], finding)  # what to do about it
            findings.setdefault(finding["subject"], []).append((finding["grade"], finding["text"], finding.get("advice", "")))
        return findings

    def check(self, findings, subject, grade, text, advice=".*"):
        self.assertIn(subject, findings)
        one = [finding for finding in findings[subject] if finding[0] == grade]
        self.assertEqual(len(one), 1, findings[subject])
        self.assertRegex(one[0][1], text)
        self.assertRegex(one[0][2], advice)

    def test_what_workers_give_up(self):
        told = subprocess.run([DAEMON, "--check-sandbox"], capture_output=True, text=True, timeout=60, env=environment())
        lines = told.stdout.splitlines()
        self.check(self.doctor(), "sandbox", "good" if len(lines) == 1 else "note", re.escape(lines[0]))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_that_may_become_nobody_else(self):
        def before():
            for capability in (6, 7):  # CAP_SETGID, CAP_SETUID
                ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

        self.check(self.doctor(before=before), "sandbox", "note", "root without capabilities.* become the user nobody")

    @unittest.skipUnless(reachable_by_nobody() and subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode == 0,
                         "needs to be root, a build directory that others can read, and user namespaces")
    def test_a_server_whose_user_has_no_number_here(self):
        server = ServerOfNobody()
        for user, warnings in ((None, 1), ("any", 0)):
            env = environment(TESSERA_SERVER_USER=user)
            done = subprocess.run(["unshare", "-Ur", TESSERA, "run", "--server", server.url, "--", program("count")], capture_output=True, text=True,
                                  timeout=60, env=env)
            self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)
            self.assertEqual(done.stderr.count("\n"), warnings, done.stderr)
            self.assertEqual(done.stderr.count("it cannot be told here as whom the server"), warnings)
            told = subprocess.run(["unshare", "-Ur", TESSERA, "doctor", "--server", server.url], capture_output=True, text=True, timeout=60, env=env)
            self.assertEqual("server user" in told.stdout, warnings == 1, told.stdout)
        self.assertEqual(server.stop(), 0)

    def fake_library(self):
        """A directory with a libcuda.so.1 that is not Tessera's."""
        shutil.copy(os.path.join(BUILD, "lib/libtessera-emulator.so"), os.path.join(self.directory, "libcuda.so.1"))
        return self.directory

    def copy_of_a_program(self, *patchelf):
        path = os.path.join(self.directory, "program")
        shutil.copy(program("count"), path)
        if patchelf:
            subprocess.run(["patchelf", *patchelf, path], check=True)
        return path

    def installation(self):
        """A copy of all parts, to damage."""
        prefix = os.path.join(self.directory, "prefix")
        for part in ("bin/tessera", "bin/tesserad", "bin/tessera-agent", "bin/tessera-gateway", "lib/client/libcuda.so.1", "lib/client/libnvidia-ml.so.1"):
            os.makedirs(os.path.dirname(os.path.join(prefix, part)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, part), os.path.join(prefix, part))
        return prefix

    def test_all_is_well(self):
        findings = self.doctor()
        for subject in ("system", "shared memory", "locked memory", "server program", "agent", "gateway", "library path", "socket", "versions"):
            self.assertEqual([grade for grade, _, _ in findings[subject]], ["good"], findings[subject])
        self.check(findings, "socket", "good", "mode 0600")
        self.check(findings, "versions", "good", r"tessera (\S+) with wire version (\d+); tesserad \1 with wire version \2; driver emulator, CUDA 13.0")
        self.check(findings, "server", "note", "emulated")

    def test_a_private_server_and_text(self):
        done = subprocess.run([TESSERA, "doctor"], capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, "note +server: a private server comes up")
        self.assertNotIn("\033", done.stdout)

    # Reach.

    def test_no_server(self):
        self.check(self.doctor(server="unix:/nonexistent/socket", code=1), "server", "problem", "no socket /nonexistent/socket", "exit code 72")

    def test_through_a_gateway(self):
        gateway = Gateway(self.server.path)
        self.check(self.doctor(server=gateway.url), "server", "note", gateway.url + " answers: .*emulated")
        self.assertEqual(gateway.stop(), 0)
        self.check(self.doctor(server=gateway.url, code=1), "server", "problem", "nobody listens at " + gateway.url, "exit code 72")

    def test_a_socket_for_everybody(self):
        os.chmod(self.server.path, 0o666)
        self.check(self.doctor(), "socket", "note", "mode 0666", "chmod 600")
        os.chmod(self.server.path, 0o600)

    def test_no_program_for_a_server_of_another_host(self):
        prefix = self.installation()
        os.unlink(os.path.join(prefix, "bin/tessera-agent"))
        findings = self.doctor(tessera=os.path.join(prefix, "bin/tessera"), code=1)
        self.check(findings, "agent", "problem", "tessera-agent cannot be run", "install Tessera again")

    def test_a_host_of_programs_alone(self):
        prefix = self.installation()
        for part in ("bin/tesserad", "bin/tessera-gateway"):
            os.unlink(os.path.join(prefix, part))
        findings = self.doctor(tessera=os.path.join(prefix, "bin/tessera"))
        for subject, part in (("server program", "tesserad"), ("gateway", "tessera-gateway")):
            self.check(findings, subject, "note", part + " is not installed", "package tessera-server")

    # Libraries.

    def test_library_path(self):
        self.check(self.doctor(LD_LIBRARY_PATH="/nonexistent:" + CLIENT), "library path", "good", "LD_LIBRARY_PATH leads to Tessera's " + CLIENT)
        directory = self.fake_library()
        self.check(self.doctor(LD_LIBRARY_PATH=directory + ":" + CLIENT), "library path", "note", f"leads to {directory}/libcuda.so.1, which is not",
                   "tessera run")
        os.unlink(directory + "/libcuda.so.1")

    def test_preloaded_library(self):
        # A name that the loader does not find: it says so and goes on.
        done = subprocess.run([TESSERA, "doctor", "--server", self.server.url, "-o", "json"], capture_output=True, text=True, timeout=60,
                              env=environment(LD_PRELOAD="/nonexistent/libcuda.so.1"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("LD_PRELOAD has a libcuda.so of its own", done.stdout)

    def test_client_library_of_another_release(self):
        prefix = self.installation()
        library = os.path.join(prefix, "lib/client/libcuda.so.1")
        with open(library, "rb") as file:
            content = file.read()
        at = content.index(b"BUTStessera\0") + len(b"BUTStessera\0")
        with open(library, "wb") as file:
            file.write(content[:at] + b"\x63" + content[at + 1:])
        findings = self.doctor(tessera=os.path.join(prefix, "bin/tessera"), code=1)
        self.check(findings, "client library", "problem", "libcuda.so.1, .*, wire version 99", "all parts of one release")
        self.check(self.doctor(LD_LIBRARY_PATH=os.path.dirname(library), code=1), "library path", "problem", "another release.*99")

    def test_client_library_that_is_none(self):
        prefix = self.installation()
        shutil.copy(os.path.join(BUILD, "lib/libtessera-emulator.so"), os.path.join(prefix, "lib/client/libcuda.so.1"))
        self.check(self.doctor(tessera=os.path.join(prefix, "bin/tessera"), code=1), "client library", "problem", "libcuda.so.1 is not Tessera's")

    def test_client_library_that_is_damaged(self):
        prefix = self.installation()
        library = os.path.join(prefix, "lib/client/libcuda.so.1")
        for size in (200, 64, 3, 0):
            os.truncate(library, size)
            self.check(self.doctor(tessera=os.path.join(prefix, "bin/tessera"), code=1), "client library", "problem", "not Tessera's, or damaged")

    # Programs.

    def test_a_program(self):
        self.check(self.doctor(self.copy_of_a_program()), "program", "good", f"{self.directory}/program gets {CLIENT}/libcuda.so.1")
        self.check(self.doctor("sh"), "program", "good", "/sh gets ")

    def test_a_script(self):
        script = os.path.join(self.directory, "script")
        with open(script, "w") as file:
            file.write("#!/usr/bin/env -S sh\n")
        os.chmod(script, 0o755)
        self.check(self.doctor(script), "program", "good", f"{script} leads to .*/sh, which gets ")
        with open(script, "w") as file:
            file.write("no interpreter\n")
        self.check(self.doctor(script, code=1), "program", "problem", "neither a program nor a script", "check the file")

    def test_a_shim(self):
        python = self.copy_of_a_program()
        script = os.path.join(self.directory, "shim")
        with open(script, "w") as file:
            file.write(f'#!/bin/sh\nexec "{python}" "$@"\n')
        os.chmod(script, 0o755)
        self.check(self.doctor(script), "program", "good", f"{script} leads to {python}, which gets ")

    def test_a_certificate(self):
        with tempfile.TemporaryDirectory() as place:
            files = {name: os.path.join(place, f"{name.lower()}.pem") for name in ("CERTIFICATE", "KEY")}
            subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=alice", "-keyout", files["KEY"],
                            "-out", f"{place}/asked"], check=True, capture_output=True)
            for when, (grade, text, advice) in (("-1", ("problem", "alice and has expired", "ask for a new one")),
                                                ("2", ("note", "alice until", "in time")), ("30", ("good", "alice until", "^$"))):
                subprocess.run(["openssl", "x509", "-req", "-in", f"{place}/asked", "-signkey", files["KEY"], "-days", when, "-out", files["CERTIFICATE"]],
                               check=True, capture_output=True)
                variables = {f"TESSERA_{name}": path for name, path in files.items()}
                # Nobody listens there: this is of the certificate alone.
                self.check(self.doctor(server="tls://127.0.0.1:1", code=1, **variables), "certificate", grade, text, advice)

    @WITH_PATCHELF
    def test_a_program_with_a_path_of_its_own(self):
        self.fake_library()
        first = self.copy_of_a_program("--force-rpath", "--set-rpath", "/nonexistent:$ORIGIN")
        self.check(self.doctor(first, code=1), "program", "problem", f"RPATH, which leads to {self.directory}/libcuda.so.1", "patchelf --set-rpath")
        last = self.copy_of_a_program("--set-rpath", "$ORIGIN")
        self.check(self.doctor(last), "program", "good", f"by itself its RUNPATH leads to {self.directory}/libcuda.so.1")

    def test_a_program_that_gets_no_library(self):
        self.check(self.doctor("no-such-program-anywhere", code=1), "program", "problem", "does not exist")
        path = self.copy_of_a_program()
        with open(path, "r+b") as file:
            file.seek(18)
            file.write(b"\xb7")  # e_machine: AArch64
        self.check(self.doctor(path, code=1), "program", "problem", "not for this kind of machine")

    @unittest.skipUnless(os.geteuid() == 0, "needs to be root: files of another user")
    def test_a_program_with_rights_of_its_own(self):
        path = self.copy_of_a_program()
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        self.check(self.doctor(path, code=1), "program", "problem", "rights of its own", "start a copy")

    # The host.

    def test_limits(self):
        for limit, least, name in ((resource.RLIMIT_FSIZE, 1 << 20, "ulimit -f"), (resource.RLIMIT_NOFILE, 32, "ulimit -n")):
            findings = self.doctor(code=1, before=lambda: resource.setrlimit(limit, (least, least)))
            self.check(findings, "limit", "problem", "the limit of .* is", name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
