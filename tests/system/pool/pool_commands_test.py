#!/usr/bin/env python3
"""What `tessera get` and `tessera grants` say of a pool and do to it, and what they say where they cannot.

usage: pool_commands_test.py BUILD_DIRECTORY
"""

import json
import os
import re
import signal
import socket
import tempfile
import time
import unittest

from pool import Pool
from pool_case import SHELL, PoolCase, close, full_and_wanted, say
from product import Keys, environment, wait_for

GRANT = re.compile("[0-9a-f]{32}")


def rows(text):
    """Of a table: cells by heading. Columns are two spaces apart at least."""
    head, *lines = text.splitlines()
    names = re.split("  +", head)
    return [dict(zip(names, re.split("  +", line))) for line in lines]


class OneServer(PoolCase):
    def setUp(self):
        self.begin()

    def get(self, what):
        return json.loads(self.ask("get", what, "-o", "json"))[what]

    def test_servers(self):
        address = "unix:" + self.pool.servers[0].path
        [server] = rows(self.ask("get", "servers"))
        self.assertEqual((server["ADDRESSES"], server["GPUS"], server["STATE"]), (address, "2", "offered"))
        [told] = self.get("servers")
        self.assertEqual((told["server"], told["addresses"], told["gpus"]), (server["SERVER"], [address], 2))
        self.assertEqual((told["offered"], told["problem"]), (True, ""))
        [wide] = rows(self.ask("get", "servers", "-o", "wide"))
        self.assertEqual(wide["MODELS"], told["models"][0])
        self.assertEqual(wide["RELEASE"], told["release"])
        self.assertIn(told["release"], say("--version"))
        self.assertNotEqual(told["release"], "")
        # One that has gone is said to have gone, and not to be offered.
        self.pool.servers.pop().stop()
        wait_for(lambda: not self.get("servers")[0]["offered"], 20, "the server's leaving")
        [server] = rows(self.ask("get", "servers"))
        self.assertRegex(server["STATE"], "not offered: .")
        self.assertEqual(server["STATE"], "not offered: " + self.get("servers")[0]["problem"])

    def test_gpus_while_a_job_runs_and_after_it(self):
        before = self.get("gpus")
        self.assertEqual([(gpu["gpu"], gpu["granted_share"], gpu["free_share"]) for gpu in before], [(0, 0, 1), (1, 0, 1)])
        job = self.start("--gpu-share", "0.3", "--gpu-mem", "1G")
        [used] = [gpu for gpu in self.get("gpus") if gpu["granted_share"]]
        self.assertEqual((used["granted_share"], used["others_share"], used["free_share"]), (0.3, 0, 0.7))
        self.assertEqual(used["granted_memory_bytes"], (1 << 30) + used["context_bytes"])
        self.assertEqual(used["free_memory_bytes"], used["memory_bytes"] - used["granted_memory_bytes"] - used["others_memory_bytes"])
        table = rows(self.ask("get", "gpus"))
        self.assertEqual([row["GPU"] for row in table], ["0", "1"])
        row = table[used["gpu"]]
        self.assertEqual((row["SHARE GRANTED"], row["SHARE OTHERS"], row["SHARE FREE"], row["MEMORY GRANTED"]), ("0.3", "0", "0.7", "1 GiB"))
        self.assertEqual((row["MODEL"], row["SERVER"]), (used["model"], used["server"]))
        self.assertNotIn("UUID", row)
        self.assertEqual([row["UUID"] for row in rows(self.ask("get", "gpus", "-o", "wide"))], [gpu["uuid"] for gpu in before])
        self.end_all(job)
        self.assertEqual(self.get("gpus"), before)

    def test_what_others_have(self):
        say("vgpu", "create", "other", "--gpu", "1", "--request", "0.25", "--memory", "512MiB", "--server", "unix:" + self.pool.servers[0].path)
        wait_for(lambda: self.get("gpus")[1]["others_share"] == 0.25, 20, "the placer's hearing of it")
        free, used = rows(self.ask("get", "gpus"))
        self.assertEqual((free["SHARE OTHERS"], used["SHARE OTHERS"], used["SHARE FREE"], used["MEMORY OTHERS"]), ("0", "0.25", "0.75", "512 MiB"))

    def test_grants_while_a_job_runs_and_after_it(self):
        head = self.ask("get", "grants")
        self.assertEqual(head.split(), ["GRANT", "STATE", "HOLDER", "GPUS", "REASON"])
        self.assertEqual(self.get("grants"), [])
        job = self.start("--gpus", "2", "--gpu-share", "0.5:0.75", "--gpu-mem", "1G")
        [told] = self.get("grants")
        self.assertRegex(told["grant"], GRANT)
        self.assertEqual((told["state"], told["holder"], told["reason"]), ("granted", f"uid:{os.getuid()}", ""))
        [part] = told["parts"]
        self.assertEqual([gpu["uuid"] for gpu in part["gpus"]], [gpu["uuid"] for gpu in self.get("gpus")])
        self.assertEqual({(gpu["share"], gpu["limit"], gpu["memory_bytes"]) for gpu in part["gpus"]}, {(0.5, 0.75, 1 << 30)})
        self.assertEqual((told["asked"]["gpus"], told["asked"]["limit"], told["asked"]["memory_bytes"]), (2, 0.75, 1 << 30))
        self.assertNotIn("wait_ms", told["asked"])
        [row] = rows(self.ask("get", "grants"))
        self.assertEqual((row["GRANT"], row["STATE"], row["HOLDER"], row["REASON"]), (told["grant"], "granted", told["holder"], "-"))
        self.assertEqual(row["GPUS"], f"2 x {part['gpus'][0]['model']} of {part['server']} (0.5 of each, 1 GiB)")
        [wide] = rows(self.ask("get", "grants", "-o", "wide"))
        self.assertEqual((wide["ASKED"], wide["UUIDS"]), ("2 GPUs, 0.5:0.75 of each, 1 GiB", ",".join(gpu["uuid"] for gpu in part["gpus"])))
        # One that waits says for what.
        waits = self.pool.job("--", *SHELL)
        self.addCleanup(close, waits)
        self.assertIn("waiting", waits.stderr.readline())
        [waiting] = [grant for grant in self.get("grants") if grant["state"] == "waiting"]
        self.assertEqual(waiting["parts"], [])
        self.assertNotEqual(waiting["reason"], "")
        [row] = [row for row in rows(self.ask("get", "grants")) if row["STATE"] == "waiting"]
        self.assertEqual((row["GPUS"], row["REASON"]), ("-", waiting["reason"]))
        self.assertIn("it was waiting", self.ask("grants", "release", waiting["grant"]))
        self.assertEqual(waits.wait(20), 81, waits.stderr.read())
        self.end_all(job)
        self.assertEqual(self.ask("get", "grants"), "GRANT  STATE  HOLDER  GPUS  REASON\n")

    def test_a_running_job_is_released(self):
        job = self.start("--gpu-share", "0.5")
        [grant] = self.get("grants")
        text = self.ask("grants", "release", grant["grant"])
        self.assertRegex(text, rf"\Agrant {grant['grant']} of uid:{os.getuid()} is released; it had 1 x [^\n]+ \(0.5 of it, [^\n]+\)\n\Z")
        self.assertIn(grant["parts"][0]["server"], text)
        lines = iter(job.stderr.readline, "")
        self.assertTrue(any("the job has lost its GPUs: its grant was released" in line for line in lines))
        wait_for(lambda: self.pool.grants() == {}, 10, "the vGPU's end")
        self.assertEqual([gpu["free_share"] for gpu in self.get("gpus")], [1, 1])
        self.assertIn("there is no grant " + grant["grant"], self.ask("grants", "release", grant["grant"], code=81))
        # The GPU is another's at once, all of both.
        other = self.start("--gpus", "2")
        [grant] = self.get("grants")
        told = json.loads(self.ask("grants", "release", grant["grant"], "-o", "json"))
        self.assertEqual(told, {**grant, "state": "released"})
        self.assertEqual(other.poll(), None)

    def test_unknown_grants(self):
        unknown = "0123456789abcdef" * 2
        self.assertIn(f"there is no grant {unknown}", self.ask("grants", "release", unknown, code=81))
        for grant in ("x", "", unknown.upper(), unknown + "0", "\x1b[2J", b"\xff\xfe", "a" * 100000):
            words = self.ask("grants", "release", grant, code=2)
            self.assertIn("is no grant: a grant is 32 digits", words)
            self.assertNotIn("\x1b", words)

    def test_a_placer_that_does_not_answer(self):
        self.assertNotEqual(self.ask("get", "gpus"), "")
        self.pool.placer.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.pool.placer.process.send_signal, signal.SIGCONT)
        began = time.monotonic()
        self.assertIn("no placer answers at " + self.pool.url, self.ask("get", "gpus", code=80))
        self.assertLess(time.monotonic() - began, 5 + 10)  # programs take a moment to start
        # By the environment as well.
        self.pool.placer.process.send_signal(signal.SIGCONT)
        self.assertEqual(say("get", "gpus", TESSERA_PLACER=self.pool.url), self.ask("get", "gpus"))
        # And as a path.
        path = self.pool.url.removeprefix("unix:")
        self.assertEqual(say("get", "gpus", TESSERA_PLACER=path), self.ask("get", "gpus"))
        self.assertEqual(say("get", "gpus", "--placer", path), self.ask("get", "gpus"))

    def test_another_service_is_there(self):
        control = "unix:" + self.pool.servers[0].path + ".control"
        for words in (("get", "servers"), ("get", "grants"), ("grants", "release", "0" * 32)):
            self.assertIn("of another release", say(*words, "--placer", control, code=74))


class NoPlacer(unittest.TestCase):
    def test_addresses_where_none_is(self):
        with tempfile.TemporaryDirectory() as place:
            with open(os.path.join(place, "file"), "w"):
                pass
            for placer, code, part in ((f"unix:{place}/nothing", 80, "start tessera-placer"), (f"unix:{place}/file", 80, "start tessera-placer"),
                                       ("tls://127.0.0.1:1", 73, "certificate"), ("tcp://127.0.0.1:1", 71, "write unix:PATH or tls://HOST:PORT"),
                                       ("nothing", 73, "('nothing' is taken as tls://nothing:4190)"),
                                       (f"{place}/nothing", 80, f"('{place}/nothing' is taken as unix:{place}/nothing)"), ("a:b", 71, "write unix:PATH"),
                                       ("unix:" + "a" * 108, 71, "longer than 107 bytes"),
                                       ("unix:\x1b[2J", 80, "?[2J")):
                for words in (("get", "gpus"), ("grants", "release", "0" * 32)):
                    self.assertIn(part, say(*words, "--placer", placer, code=code, HOME=place))
            if not os.path.exists("/run/tessera/placer.sock"):
                self.assertIn("no placer is named", say("get", "gpus", code=80, XDG_RUNTIME_DIR=place))

    def test_somebody_who_says_nothing_or_takes_nobody(self):
        with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
            path = os.path.join(place, "silent")
            listener.bind(path)
            listener.listen(0)
            for part in ("no placer answers at", "takes no connections"):
                began = time.monotonic()
                self.assertIn(part, say("get", "grants", "--placer", "unix:" + path, code=80))
                self.assertLess(time.monotonic() - began, 5 + 10)
                if "answers" in part:
                    listener.accept()[0].close()
                    first.connect(path)  # all who may wait

    def test_a_port_where_nobody_says_anything_or_is(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            keys = Keys().environment("client", "alice")
            began = time.monotonic()
            url = f"tls://127.0.0.1:{listener.getsockname()[1]}"
            self.assertIn("there is no answer from " + url, say("get", "gpus", "--placer", url, code=80, HOME="/nonexistent", **keys))
            self.assertLess(time.monotonic() - began, 5 + 10)
        self.assertIn("start tessera-placer there", say("get", "gpus", "--placer", url, code=80, HOME="/nonexistent", **keys))

    def test_command_lines(self):
        for words, part in ((("get",), "what is required"), (("get", "nodes"), "{servers,gpus,grants,requests}"), (("get", "gpus", "-o", "xml"), "xml"),
                            (("grants", "release"), "grant is required"), (("grants", "end", "0" * 32), "{release,revoke}"),
                            (("grants", "release", "0" * 32, "--reason", "a" * 161), "161 bytes"),
                            (("grants", "release", "0" * 32, "--reason", "a\nb"), "cannot be printed")):
            words = say(*words, code=2)
            self.assertIn(part, words)
            self.assertRegex(words, "see 'tessera (get|grants) --help'")
        for command in ("get", "grants"):
            self.assertIn("Exit codes", say(command, "--help"))
            self.assertIn(f"\n  {command} ", say("--help"))


class Administrators(unittest.TestCase):
    """People by their certificates, at a placer of tls://."""

    @classmethod
    def setUpClass(cls):
        cls.keys = Keys()

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        with open(os.path.join(place.name, "policy.toml"), "w") as policy:
            policy.write('[roles]\n"name:alice" = "tenant"\n"name:carol" = "tenant"\n"name:wall" = "viewer"\n"name:boss" = "admin"\nothers = "nobody"\n')
        self.pool = Pool("--listen", "tls://127.0.0.1:0", *self.keys.options("server", "localhost,127.0.0.1"), "--policy", policy.name)
        self.addCleanup(self.pool.stop)
        self.url = re.search(r"tls://127.0.0.1:\d+", self.pool.placer.ready).group()

    def ask(self, name, *words, code=0):
        return say(*words, "--placer", self.url, code=code, HOME="/nonexistent", **self.keys.environment("client", name))

    def grants(self, name):
        return json.loads(self.ask(name, "get", "grants", "-o", "json"))["grants"]

    def test_who_sees_and_ends_what(self):
        mine, waits = full_and_wanted(self, self.url, self.keys)
        [of_alice] = self.grants("alice")
        self.assertEqual((of_alice["holder"], of_alice["state"]), ("name:alice", "waiting"))
        for name in ("wall", "boss"):
            self.assertEqual(sorted(grant["holder"] for grant in self.grants(name)), ["name:alice", f"uid:{os.getuid()}"])
        self.assertEqual(self.grants("carol"), [])
        # Another's is not there for a tenant; a viewer sees it, and may not end it; a stranger may nothing.
        grant = of_alice["grant"]
        self.assertIn("there is no grant", self.ask("carol", "grants", "release", grant, code=81))
        self.assertIn("the grant is of name:alice", self.ask("wall", "grants", "release", grant, code=73))
        self.assertIn("may not do this at the placer", self.ask("stranger", "get", "servers", code=73))
        self.assertEqual(waits.poll(), None)
        text = self.ask("boss", "grants", "revoke", grant, "--reason", "gpu7 is repaired")
        self.assertEqual(text, f"grant {grant} of name:alice is revoked; it was waiting\n")
        self.assertEqual(waits.wait(20), 81)
        self.assertIn("by name:boss: gpu7 is repaired", waits.stderr.read())
        self.assertEqual([grant["holder"] for grant in self.grants("boss")], [f"uid:{os.getuid()}"])
        mine.stdin.close()
        self.assertEqual(mine.wait(20), 0)

    def test_a_certificate_of_another_authority(self):
        words = say("get", "gpus", "--placer", self.url, code=73, HOME="/nonexistent", **Keys().environment("client", "boss"))
        self.assertIn("certificate", words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
