#!/usr/bin/env python3
"""What an administrator does with the servers of a pool: cordons, drains, plans and descriptions.

usage: pool_servers_test.py BUILD_DIRECTORY
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from pool import PoolServer
from pool_case import SHELL, PoolCase, close, say
from product import TESSERA, Keys, environment, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs"))
import marked  # noqa: E402

PAGE = Path(__file__).parents[3] / "docs/pool-gpus.md"
ME = f"uid:{os.getuid()}"


class OfPool(PoolCase):
    def json(self, *words, **more):
        return json.loads(self.ask(*words, "-o", "json", **more))

    def servers(self):
        return {server["server"]: server for server in self.json("get", "servers")["servers"]}

    def grants(self):
        return self.json("get", "grants")["grants"]

    def name_of(self, number):
        """Of the server with that number, in the pool."""
        address = "unix:" + self.pool.servers[number - 1].path
        return next(name for name, server in self.servers().items() if server["addresses"] == [address])

    def wait(self, *words):
        """A job that waits."""
        job = self.pool.job(*words, "--", *SHELL)
        self.addCleanup(close, job)
        self.addCleanup(job.kill)
        self.assertIn("waiting", job.stderr.readline())
        return job

    def lost(self, job):
        """What the job is told when it loses its GPUs."""
        for line in iter(job.stderr.readline, ""):
            if "has lost its GPUs" in line:
                return line
        return ""


class OneServer(OfPool):
    def setUp(self):
        self.begin(devices=1)
        [self.server] = self.servers()

    def restart_placer(self):
        joined = self.pool.joins()
        self.pool.placer.kill()
        self.pool.placer = self.pool.start_placer()
        wait_for(lambda: self.pool.joins() > joined, 30, "the server's joining again")

    def test_a_cordoned_server_gets_nothing_new_until_it_is_offered_again(self):
        job = self.start("--gpu-share", "0.25")
        text = self.ask("cordon", self.server, "--reason", "its fans are changed")
        self.assertEqual(text, f"server {self.server} is cordoned: nothing new is placed there; 1 grant is there, and goes on\n")
        self.assertEqual(self.ask("cordon", self.server, "--reason", "its fans are changed"), text)
        told = self.servers()[self.server]
        self.assertEqual((told["offered"], told["problem"]), (False, "cordoned: its fans are changed"))
        waits = self.wait("--gpu-share", "0.25")
        [waiting] = [grant for grant in self.grants() if grant["state"] == "waiting"]
        self.assertIn("is cordoned: its fans are changed", waiting["reason"])
        self.assertIsNone(job.poll())
        self.assertEqual(self.ask("uncordon", self.server), f"server {self.server} is offered again\n")
        self.assertEqual(self.ask("uncordon", self.server), f"server {self.server} is offered again\n")
        self.assertEqual(waits.stdout.readline(), "ready\n")
        self.assertTrue(self.servers()[self.server]["offered"])
        self.end(job)
        self.end(waits)

    def test_a_cordon_outlives_placer_and_node(self):
        job = self.start("--gpu-share", "0.25")
        change = self.json("cordon", self.server)
        self.assertEqual((change["server"], change["dry_run"]), (self.server, False))
        self.assertEqual(change["cordon"], {"reason": "", "by": ME, "drains": False, "ends_in_ms": None})
        self.assertEqual([grant["grant"] for grant in change["grants"]], [grant["grant"] for grant in self.grants()])
        self.restart_placer()
        self.assertEqual(self.servers()[self.server]["problem"], "cordoned")
        first = self.pool.servers[0].node()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: self.pool.servers[0].node() not in (None, first), 20, "another node")
        wait_for(lambda: self.json("describe", "server", self.server)["away"] == "", 30, "the server's joining again")
        self.assertEqual(self.servers()[self.server]["problem"], "cordoned")
        done = self.pool.run("--wait", "0", "--gpu-share", "0.25", "--", "true")
        self.assertEqual(done.returncode, 82, done.stderr)
        self.assertIn("is cordoned", done.stderr)
        self.assertIsNone(job.poll())
        self.assertIsNone(self.json("uncordon", self.server)["cordon"])
        self.restart_placer()
        self.assertEqual(self.pool.run("--gpu-share", "0.25", "--", "true").returncode, 0)
        self.end(job)

    def test_a_drain_tells_who_is_there_and_ends_what_is_left(self):
        job = self.start("--gpu-share", "0.25", "--gpu-mem", "1G")
        [grant] = self.grants()
        before = self.servers()
        line = rf"  grant {grant['grant']} of {ME}: 1 x [^\n]+ of {self.server} \(0.25 of it, 1 GiB\)\n"
        head = f"server {self.server} would be drained: 1 grant is there; what is there ends now\n"
        self.assertRegex(self.ask("drain", self.server, "--dry-run", "--deadline", "0"), rf"\A{head}{line}\Z")
        self.assertEqual(self.servers(), before)
        self.assertTrue(self.json("drain", self.server, "--dry-run")["dry_run"])
        text = self.ask("drain", self.server, "--reason", "it is repaired")
        self.assertIn("is drained: nothing new is placed there; 1 grant is there; what is there ends by itself\n", text)
        self.assertEqual(self.servers()[self.server]["problem"], "cordoned: it is repaired")
        change = self.json("drain", self.server, "--reason", "it is repaired", "--deadline", "2s")
        self.assertEqual((change["cordon"]["drains"], change["cordon"]["ends_in_ms"]), (True, 2000))
        began = time.monotonic()
        self.assertIn(f"its grant was revoked, by {ME}: it is repaired", self.lost(job))
        self.assertGreater(time.monotonic() - began, 1)
        wait_for(lambda: self.pool.grants() == {}, 10, "the vGPU's end")
        self.assertEqual(self.grants(), [])
        # It stays drained until it is offered again.
        self.assertIn("no grant is there", self.ask("drain", self.server))
        self.ask("uncordon", self.server)
        self.end(self.start())

    def test_a_drain_at_once_and_one_that_is_ended(self):
        job = self.start("--gpu-share", "0.25")
        self.ask("drain", self.server, "--deadline", "2s")
        self.ask("uncordon", self.server)
        time.sleep(3)
        self.assertEqual(len(self.grants()), 1)
        self.ask("drain", self.server, "--deadline", "0")
        self.assertIn(f"by {ME}: server '{self.server}' is drained", self.lost(job))

    def test_a_drains_deadline_outlives_the_placer(self):
        job = self.start("--gpu-share", "0.25")
        self.ask("drain", self.server, "--reason", "it moves", "--deadline", "1s")
        self.pool.placer.process.kill()
        time.sleep(1.5)
        self.restart_placer()
        self.assertIn(f"by {ME}: it moves", self.lost(job))
        wait_for(lambda: self.pool.grants() == {}, 10, "the vGPU's end")

    def test_unknown_servers(self):
        for words in (("cordon",), ("uncordon",), ("drain",), ("drain", "--dry-run")):
            words = self.ask(words[0], "nothing", *words[1:], code=81)
            self.assertIn(f"there is no server 'nothing' in the pool: the nearest name is '{self.server}'", words)
        for server in ("\x1b[2J", b"\xff\xfe", "a" * 100000):
            self.assertNotIn("\x1b", self.ask("cordon", server, code=81))
        self.assertTrue(self.servers()[self.server]["offered"])


class Plans(OfPool):
    """`tessera place --dry-run` and `tessera describe`."""

    def setUp(self):
        self.begin(servers=2, devices=1)

    def test_a_plan_says_where_or_why_not_and_holds_nothing(self):
        for _ in range(2):
            self.assertRegex(self.ask("place", "--dry-run", "--gpu-share", "0.75", "--gpu-mem", "1G"),
                             r"\Athe job would have 1 x [^\n]+ of \S+ \(0.75 of it, 1 GiB\)\n\Z")
        plan = self.json("place", "--dry-run", "--gpus", "2", "--gpu-share", "0.5:0.75")
        self.assertEqual((plan["outcome"], plan["reason"]), ("placed", ""))
        self.assertEqual(sorted(part["server"] for part in plan["parts"]), sorted(self.servers()))
        self.assertEqual({(gpu["share"], gpu["limit"]) for part in plan["parts"] for gpu in part["gpus"]}, {(0.5, 0.75)})
        self.assertEqual(self.grants(), [])
        # What run gets is what was said.
        [said] = self.json("place", "--dry-run")["parts"]
        job = self.start()
        [grant] = self.grants()
        self.assertEqual([gpu["uuid"] for part in grant["parts"] for gpu in part["gpus"]], [gpu["uuid"] for gpu in said["gpus"]])
        self.assertIn("the job would wait: 2 GPUs wanted, 1 of the pool's 2 fit", self.ask("place", "--dry-run", "--gpus", "2", code=82))
        out = subprocess.run([TESSERA, "place", "--dry-run", "--gpus", "2", "-o", "json", "--placer", self.pool.url], capture_output=True, text=True,
                             timeout=60, env=environment())
        self.assertEqual((out.returncode, json.loads(out.stdout)["outcome"]), (82, "waits"))
        self.assertIn("1 of the pool's 2 fit", json.loads(out.stdout)["reason"])
        for words in (("--gpus", "3"), ("--gpu-mem", "999T"), ("--gpu-model", "nothing"), ("--gpus", "2", "--same-server")):
            self.assertIn("the pool has no GPU for such a job: ", self.ask("place", "--dry-run", *words, code=81))
        self.end(job)

    def test_a_server_and_its_gpus_and_grants_are_described(self):
        job = self.start("--gpu-share", "0.5:0.75", "--gpu-mem", "1G")
        [grant] = self.grants()
        [part] = grant["parts"]
        name, [gpu] = part["server"], part["gpus"]
        self.ask("drain", name, "--reason", "it is repaired", "--deadline", "1h")
        told = self.json("describe", "server", name)
        self.assertEqual((told["server"], told["offered"], told["problem"], told["away"]), (name, False, "cordoned: it is repaired", ""))
        self.assertEqual((told["cordon"]["reason"], told["cordon"]["by"], told["cordon"]["drains"]), ("it is repaired", ME, True))
        self.assertTrue(3_500_000 < told["cordon"]["ends_in_ms"] <= 3_600_000, told["cordon"])
        self.assertNotIn("cordon_text", told)
        [described] = told["gpus"]
        self.assertEqual((described["uuid"], described["granted_share"]), (gpu["uuid"], 0.5))
        [has] = described["grants"]
        self.assertEqual((has["grant"], has["holder"], has["share"], has["limit"]), (grant["grant"], ME, 0.5, 0.75))
        text = self.ask("describe", "server", name)
        for line in (f"server      {name}", f"addresses   {told['addresses'][0]}", "state       not offered: cordoned: it is repaired",
                     "connection  joined", f"  grant {grant['grant']} of {ME}: 0.5:0.75 of it, 1 GiB, 0 sessions"):
            self.assertIn(line + "\n", text)
        self.assertRegex(text, rf"\ncordon      it is repaired \(by {ME}\); drains, what is left ends in 3[\d.]+ s\n")
        for word in (gpu["uuid"], name + "/0"):
            one = self.json("describe", "gpu", word)
            self.assertEqual(one, {**described, "problem": told["problem"]})
            text = self.ask("describe", "gpu", word)
            for line in (f"uuid        {gpu['uuid']}", "isolation   strict", "priority    protected, normal"):
                self.assertIn(line + "\n", text)
            self.assertRegex(text, r"\nplace       PCIe 0000:[0-9a-f]{2}:00\.0\n")
        self.assertEqual(self.json("describe", "grant", grant["grant"]), grant)
        text = self.ask("describe", "grant", grant["grant"])
        for line in (f"grant       {grant['grant']}", f"holder      {ME}", "state       granted", "asked       1 GPU, 0.5:0.75 of each, 1 GiB",
                     f"  {name}: 0 sessions", f"    {gpu['model']}, {gpu['uuid']}: 0.5:0.75 of it, 1 GiB"):
            self.assertIn(line + "\n", text)
        self.ask("uncordon", name)
        self.assertIn("state       offered\n", self.ask("describe", "server", name))
        self.assertIn("cordon      -\n", self.ask("describe", "server", name))
        self.end(job)
        self.assertIn(f"there is no server '{name}x' in the pool: the nearest name is '{name}'", self.ask("describe", "server", name + "x", code=81))
        self.assertIn(f"there is no GPU '{name}/1' in the pool: the nearest name is '{name}/0'", self.ask("describe", "gpu", name + "/1", code=81))
        self.assertIn("there is no grant", self.ask("describe", "grant", grant["grant"], code=81))
        self.assertIn("is no grant: a grant is 32 digits", self.ask("describe", "grant", "x", code=2))


class XenServer(OfPool):
    """Servers join and leave, and a draining one is avoided (scheduling.md's table of seed systems)."""

    def test_servers_join_and_leave_and_a_draining_one_is_avoided(self):
        self.begin(servers=1, devices=1)
        first = self.name_of(1)
        job = self.start()
        waits = self.wait()
        # One joins: who waits has it.
        self.pool.servers.append(PoolServer(self.pool, 2, devices=1))
        self.assertEqual(waits.stdout.readline(), "ready\n")
        second = self.name_of(2)
        self.assertEqual({part["server"] for grant in self.grants() for part in grant["parts"]}, {first, second})
        # The first drains: its job goes on, the next ones go to the other, though the first is free by then.
        self.ask("drain", first, "--reason", "it is replaced")
        self.assertIsNone(job.poll())
        self.end(job)
        self.end(waits)
        for _ in range(3):
            job = self.start("--gpu-share", "0.25")
            self.assertEqual([part["server"] for grant in self.grants() for part in grant["parts"]], [second])
            self.end(job)
        # It leaves, and is not missed; when it is back it is drained still.
        self.pool.servers[0].stop()
        wait_for(lambda: self.json("describe", "server", first)["away"], 20, "the server's leaving")
        self.assertEqual(self.pool.run("--gpu-share", "0.25", "--", "true").returncode, 0)
        self.pool.servers[0] = PoolServer(self.pool, 1, devices=1)
        wait_for(lambda: not self.json("describe", "server", first)["away"], 20, "the server's return")
        self.assertEqual(self.servers()[first]["problem"], "cordoned: it is replaced")
        # The second leaves: nobody is offered anything until the first one is.
        self.ask("cordon", second)
        waits = self.wait()
        self.ask("uncordon", first)
        self.assertEqual(waits.stdout.readline(), "ready\n")
        self.assertEqual([part["server"] for grant in self.grants() for part in grant["parts"]], [first])
        self.end(waits)


class CommandLines(unittest.TestCase):
    def test_command_lines(self):
        for words, part in ((("cordon",), "server is required"), (("uncordon", "a", "b"), "b"), (("cordon", ""), "not empty"),
                            (("cordon", "a", "--reason", "a" * 161), "161 bytes"), (("drain", "a", "--reason", "a\nb"), "cannot be printed"),
                            (("drain", "a", "--deadline", "5"), "is not a time with its unit"), (("drain", "a", "--deadline", "-1s"), "--deadline"),
                            (("uncordon", "a", "-o", "wide"), "wide"), (("place",), "'tessera run' is what places"),
                            (("place", "--gpus", "2"), "'tessera run' is what places"), (("place", "--dry-run", "--gpu-share", "2"), "--gpu-share"),
                            (("place", "--dry-run", "x"), "x"), (("describe", "pool", "x"), "{server,gpu,grant}"),
                            (("describe", "gpu"), "name is required")):
            words = say(*words, code=2)
            self.assertIn(part, words)
            self.assertRegex(words, "see 'tessera (cordon|uncordon|drain|place|describe) --help'")
        for command in ("cordon", "uncordon", "drain", "place", "describe"):
            self.assertIn("Exit codes", say(command, "--help"))
            self.assertIn(f"\n  {command} ", say("--help"))

    def test_nobody_is_there(self):
        with tempfile.TemporaryDirectory() as place:
            for words in (("cordon", "a"), ("uncordon", "a"), ("drain", "a"), ("place", "--dry-run"), ("describe", "gpu", "a"), ("describe", "grant", "a")):
                self.assertIn("start tessera-placer", say(*words, "--placer", f"unix:{place}/nothing", code=80))


class Administrators(OfPool):
    """People by their certificates, at a placer of tls://."""

    def test_who_may(self):
        keys = Keys()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        with open(os.path.join(place.name, "policy.toml"), "w") as policy:
            policy.write('[roles]\n"name:alice" = "tenant"\n"name:wall" = "viewer"\n"name:boss" = "admin"\nothers = "nobody"\n')
        self.begin("--listen", "tls://127.0.0.1:0", *keys.options("server", "localhost,127.0.0.1"), "--policy", policy.name)
        url = re.search(r"tls://127.0.0.1:\d+", self.pool.placer.ready).group()

        def ask(name, *words, code=0):
            return say(*words, "--placer", url, code=code, HOME="/nonexistent", **keys.environment("client", name))

        [server] = self.servers()
        for name in ("alice", "wall", "stranger"):
            for words in (("cordon", server), ("uncordon", server), ("drain", server, "--deadline", "0"), ("drain", server, "--dry-run")):
                self.assertIn(f"name:{name} may not change servers at this placer", ask(name, *words, code=73))
        self.assertTrue(self.servers()[server]["offered"])
        # A plan is for whoever may ask for GPUs.
        for name in ("wall", "stranger"):
            self.assertIn(f"name:{name} may not ask for GPUs at this placer", ask(name, "place", "--dry-run", code=73))
        self.assertIn("the job would have", ask("alice", "place", "--dry-run"))
        self.assertIn("is cordoned", ask("boss", "cordon", server, "--reason", "its fans"))
        records = json.loads(ask("boss", "audit", "--of", server, "-o", "json"))["events"]
        told = [(record["actor"], record["action"], record["outcome"]) for record in records]
        self.assertIn(("name:boss", "cordon", "done"), told)
        for name in ("alice", "wall", "stranger"):
            self.assertIn((f"name:{name}", "drain", "refused"), told)
        self.assertFalse(self.servers()[server]["offered"])


class ThePage(OfPool):
    """What docs/pool-gpus.md says of a server that is taken out."""

    def test_its_commands(self):
        text = PAGE.read_text().split("## Take a server out")[1].split("\n## ")[0]
        commands = [shlex.split(line) for line in marked.commands(text)]
        self.assertEqual([words[1] for words in commands], ["describe", "drain", "drain", "uncordon", "place"])
        self.begin(servers=2)
        job = self.start("--gpus", "2")
        [grant] = self.grants()
        name = grant["parts"][0]["server"]
        [other] = {self.name_of(1), self.name_of(2)} - {name}
        here = [[name if word == "gpu7" else word for word in words[1:]] for words in commands]
        said = [self.ask(*here[each]) for each in (0, 1, 2, 4)]
        self.assertIn("state       offered", said[0])
        self.assertIn("would be drained", said[1])
        self.assertIn("ends in 2 h at the latest", said[2])
        self.assertIn(other, said[3])
        self.assertEqual(self.servers()[name]["problem"], "cordoned: gpu7 is repaired")
        self.ask(*here[3])
        self.assertTrue(self.servers()[name]["offered"])
        self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
