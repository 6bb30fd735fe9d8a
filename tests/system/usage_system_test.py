#!/usr/bin/env python3
"""Usage records: from tenants to `tessera vgpu usage`, who sees what, and what a server does whose records cannot be kept.

usage: usage_system_test.py BUILD_DIRECTORY
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import users
from product import TESSERA, Server, environment, program, status_of, uids_of, wait_for
from vgpu_test import VgpuTest


class UsageBase(VgpuTest):
    def serve(self, *options):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state = os.path.join(directory.name, "state")
        self.database = self.state + ".usage/usage.sqlite"
        self.options = ("--default", "none", "--state", self.state, *options)
        self.start()

    def start(self):
        self.server = Server(*self.options, env=environment(TESSERA_EMULATOR_DELAY_US="0"))
        self.addCleanup(self.stop, self.server)

    @staticmethod
    def stop(server):
        if server.process.poll() is None:
            server.stop()
        elif not server.log.closed:
            server.discard()

    def vgpu(self, *words, code=0, user=None):
        done = subprocess.run([TESSERA, "vgpu", *map(str, words), "--server", self.server.url], capture_output=True, text=True, timeout=60,
                              cwd="/", env=environment(), preexec_fn=users.become(user) if user else None)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def usage(self, *words, **more):
        rows = json.loads(self.vgpu("usage", *words, "-o", "json", **more))["rows"]
        return {row["name"]: row for row in rows}

    def keeper(self):
        return next((pid for pid, words in self.server.children_by_words().items() if "--usage-fd" in words), None)


class Usage(UsageBase):
    def test_records_go_on_when_broker_or_keeper_end(self):
        self.serve()
        self.vgpu("create", "a", "--request", 0.5)
        self.tenant("a")
        wait_for(lambda: self.usage().get("a", {}).get("active_s", 0) > 1, 60, "records")
        before = self.usage()["a"]["active_s"]
        broker = self.server.broker()
        os.kill(broker, signal.SIGKILL)
        os.kill(self.keeper(), signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 30, "another broker")

        def goes_on():
            done = subprocess.run([TESSERA, "vgpu", "usage", "-o", "json", "--server", self.server.url], capture_output=True, text=True,
                                  timeout=60, env=environment())
            rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
            return rows and rows[0]["active_s"] > before + 1
        wait_for(goes_on, 60, "records of the next broker by the next keeper")

    @unittest.skipUnless(users.can_be_another(), "other users cannot run programs from here")
    def test_owners_see_their_own(self):
        self.serve("--socket-mode", "666")
        os.chmod(self.server.directory.name, 0o755)
        mine, others = users.ALICE, users.BOB
        self.vgpu("create", "mine", "--request", 0.5, "--owner", f"uid:{mine}")
        self.tenant_of("mine", mine)
        wait_for(lambda: "mine" in self.usage(), 60, "records")
        self.assertEqual(list(self.usage(user=mine)), ["mine"])
        self.assertEqual(self.usage(user=others), {})
        self.assertEqual(self.usage("mine", user=others), {})
        # Made anew for another, who does not see what was before.
        self.vgpu("delete", "mine", "--force")
        wait_for(lambda: not self.server.workers(), 30, "its session's end")
        self.vgpu("create", "mine", "--request", 0.5, "--owner", f"uid:{others}")
        self.assertEqual(self.usage(user=others), {})
        self.assertEqual(list(self.usage(user=mine)), ["mine"])

    def tenant_of(self, name, user):
        process = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", name, "--", program("occupy"), "1000000", "1000"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(HOME="/"), cwd="/",
                                   preexec_fn=users.become(user))
        self.addCleanup(self.end, process)
        self.assertNotEqual(process.stdout.readline(), "")

    @unittest.skipUnless(os.geteuid() == 0, "services of root's have users of their own")
    def test_their_keeper_is_in_its_sandbox(self):
        self.serve("--usage-days", "7")
        keeper = self.keeper()
        wait_for(lambda: status_of(keeper)["Seccomp"] == "2", 10, "a service in its sandbox")
        self.assertEqual(uids_of(keeper), {65525})
        self.assertEqual(int(status_of(keeper)["CapEff"], 16), 0)
        self.assertEqual(os.stat(os.path.dirname(self.database)).st_uid, 65525)
        self.assertFalse(os.path.exists(f"/proc/{keeper}/root/etc"))

    def test_none_where_there_are_to_be_none(self):
        self.serve("--usage-days", "0")
        self.assertIn("keeps no usage records", self.vgpu("usage", code=79))
        self.assertFalse(os.path.exists(os.path.dirname(self.database)))

    def test_times_that_are_none(self):
        self.serve()
        for time_ in ("yesterday", "2026-02-31", "2026-01-01T25:00", "-1d", "1y", "1969-12-31"):
            self.assertIn(f"--since: '{time_}' is no time: 2026-11-26", self.vgpu("usage", f"--since={time_}", code=2))
        self.assertIn("--until is before --since", self.vgpu("usage", "--until", "2d", "--since", "1d", code=2))
        self.assertIn("list takes no --since", self.vgpu("list", "--since", "1d", code=2))
        self.assertIn("--by", self.vgpu("usage", "--by", "year", code=2))


class BadPlaces(UsageBase):
    def check_it_serves_without(self, sentence):
        """A tenant has its share, and the log says once that there are no records."""
        self.start()
        self.vgpu("create", "a", "--request", 0.5)
        self.tenant("a")
        wait_for(lambda: sentence in self.server.words(), 30, "a word in the log")
        self.assertIn("no usage records now", self.vgpu("usage", code=72))
        time.sleep(1)
        self.assertEqual(self.server.words().count(sentence), 1)
        self.assertEqual(json.loads(self.vgpu("list", "-o", "json"))["vgpus"][0]["sessions"], 1)

    def damage(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state = os.path.join(directory.name, "state")
        self.options = ("--default", "none", "--state", self.state)
        os.mkdir(self.state + ".usage", 0o700)
        with open(self.state + ".usage/usage.sqlite", "wb") as file:
            file.write(os.urandom(20_000))

    def test_a_damaged_database(self):
        self.damage()
        self.options += ("--usage-days", "7")
        self.start()
        self.assertEqual(self.server.process.wait(20), 4)
        self.assertRegex(self.server.words(), "tesserad: no usage records: .*usage.sqlite: file is not a database; it is damaged: move it away")

    def test_a_damaged_database_that_nobody_has_asked_for(self):
        self.damage()
        self.check_it_serves_without("it is damaged: move it away")

    def test_a_directory_that_cannot_be(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.options = ("--state", os.path.join(directory.name, "state"), "--usage-days", "7")
        with open(os.path.join(directory.name, "state.usage"), "w"):
            self.start()
        self.assertEqual(self.server.process.wait(20), 4)
        self.assertRegex(self.server.words(), "no usage records: cannot open the directory .*state.usage: Not a directory")

    @unittest.skipUnless(os.geteuid() == 0, "a file system of its own is for root to mount")
    def test_a_full_disk(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "tmpfs", directory.name], capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", directory.name])
        self.state = os.path.join(directory.name, "state")
        self.options = ("--default", "none", "--state", self.state, "--usage-days", "7")
        self.start()
        self.assertNotEqual(self.server.ready, "", self.server.words())
        self.vgpu("create", "a", "--request", 0.5)
        with open(os.path.join(directory.name, "rest"), "wb", buffering=0) as rest, contextlib.suppress(OSError):
            while True:
                rest.write(bytes(4096))
        self.tenant("a")
        wait_for(lambda: "usage records are not written" in self.server.words(), 60, "a word of the full disk")
        self.assertRegex(self.server.words(), "full")
        self.assertIsNone(self.server.process.poll())
        self.assertEqual(json.loads(self.vgpu("list", "-o", "json"))["vgpus"][0]["sessions"], 1)
        os.unlink(os.path.join(directory.name, "rest"))
        wait_for(lambda: self.usage().get("a", {}).get("recorded_s", 0) > 2, 60, "records, once there is room")

    def test_a_place_that_there_is_not(self):
        for options in (("--state", "none"), ("--control", "none"), ("--no-vgpus",)):
            done = subprocess.run([os.path.join(os.path.dirname(TESSERA), "tesserad"), "--listen", "unix:/tmp/none", "--usage-days", "3", *options],
                                  capture_output=True, text=True, timeout=20, env=environment())
            self.assertEqual(done.returncode, 2)
            self.assertIn("--usage-days needs a control API and a place beside its state", done.stderr)


if __name__ == "__main__":
    unittest.main()
