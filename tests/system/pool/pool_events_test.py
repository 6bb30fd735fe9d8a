#!/usr/bin/env python3
"""What happened in a pool: `tessera events` and `tessera audit` of a pool on the emulator, their watching, and that of `tessera get`.

usage: pool_events_test.py BUILD_DIRECTORY
"""

import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import time
import unittest

from pool import Pool
from pool_case import PoolCase, close, full_and_wanted, say
from pool_commands_test import rows
from product import TESSERA, Keys, end_with_test, environment, wait_for

ME = f"uid:{os.getuid()}"
SHORT_S = 3  # in which whatever was noted is stored and told


class Watch:
    """A command that goes on; its lines so far."""

    def __init__(self, *words, **changes):
        self.out, self.err = tempfile.TemporaryFile("a+"), tempfile.TemporaryFile("a+")
        self.process = subprocess.Popen([TESSERA, *words], stdout=self.out, stderr=self.err, env=environment(**changes))
        end_with_test(self.process)

    def read(self, file):  # which the command appends to
        file.seek(0)
        return file.read()

    def lines(self):
        return self.read(self.out).splitlines()

    def objects(self):
        return [json.loads(line) for line in self.lines()]

    def said(self):
        return self.read(self.err)

    def end(self):
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(10)
        self.out.close()
        self.err.close()
        return code


def words_of(events):
    return [f"{event['action']} {event['outcome']}" for event in events]


class OnePool(PoolCase):
    def setUp(self):
        self.begin()

    def events(self, *words, command="events"):
        return json.loads(self.ask(command, *words, "-o", "json"))["events"]

    def watch(self, *words):
        watch = Watch(*words, "--placer", self.pool.url)
        self.addCleanup(lambda: watch.process.poll() is None and watch.end())
        return watch

    def test_a_job_from_its_first_word_to_its_end(self):
        began_ms = time.time() * 1000
        job = self.start("--gpu-share", "0.5", "--gpu-mem", "1G")
        [grant] = json.loads(self.ask("get", "grants", "-o", "json"))["grants"]
        self.end_all(job)
        wait_for(lambda: len(self.events("--of", grant["grant"])) == 3, SHORT_S, "the events")
        asked, granted, released = events = self.events("--of", grant["grant"])
        self.assertEqual(words_of(events), ["ask done", "grant done", "release done"])
        self.assertEqual({event["holder"] for event in events}, {ME})
        self.assertEqual(asked["text"], "1 GPU, 0.5 of each, 1 GiB")
        server = grant["parts"][0]["server"]
        self.assertEqual(granted["text"], f"{grant['parts'][0]['gpus'][0]['uuid']} of {server}")
        self.assertEqual((asked["servers"], granted["servers"], released["servers"]), ([], [server], [server]))
        for event in events:
            self.assertTrue(began_ms <= event["time_ms"] <= time.time() * 1000, event)
            self.assertEqual(event["time"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["time_ms"] // 1000)))
            self.assertNotIn("actor", event)
        self.assertEqual([event["actor"] for event in self.events("--of", grant["grant"], command="audit")], [ME, "placer", ME])
        # As text; of the server, and of the holder.
        table = rows(self.ask("audit", "--of", grant["grant"]))
        self.assertEqual([(row["ACTOR"], row["ACTION"], row["OUTCOME"], row["OF"]) for row in table],
                         [(ME, "ask", "done", grant["grant"]), ("placer", "grant", "done", grant["grant"]), (ME, "release", "done", grant["grant"])])
        self.assertEqual(table[1]["TIME"], granted["time"])
        self.assertEqual(rows(self.ask("events", "--of", ME))[0]["WHAT"], f"{ME}: 1 GPU, 0.5 of each, 1 GiB")
        self.assertEqual(words_of(self.events("--of", server)), ["join done", "grant done", "release done"])
        self.assertEqual(self.events("--of", "nobody"), [])
        # The placer itself, and times.
        self.assertEqual(words_of(self.events())[0], "start done")
        self.assertEqual(self.events()[0]["text"], "epoch 1")
        self.assertEqual(self.events("--until", "1h"), [])
        self.assertEqual(self.events("--since", "1h"), self.events())
        self.assertEqual(self.ask("events", "--until", "1h").split(), ["TIME", "ACTION", "OUTCOME", "OF", "WHAT"])

    def test_who_is_refused_and_who_goes(self):
        self.pool.run("--gpus", "7", "--", "true")
        job = self.start("--gpus", "2")
        self.pool.run("--wait", "0", "--", "true")
        self.pool.servers.pop().stop()
        job.kill()
        wait_for(lambda: {"grant refused", "grant late", "leave done"} <= set(words_of(self.events())), 20, "the events")
        [refused] = [event for event in self.events() if event["outcome"] == "refused"]
        self.assertIn("7", refused["text"])

    def test_a_watch_goes_on_over_a_restart_of_the_placer(self):
        # One that was there before, so that a list comes first.
        self.end_all(self.start("--gpu-share", "0.5"))
        wait_for(lambda: "release done" in words_of(self.events()), SHORT_S, "the event")
        watch = self.watch("events", "--watch", "-o", "json")
        text = self.watch("audit", "-w", "--of", ME)
        wait_for(lambda: len(watch.lines()) == len(self.events()) and len(text.lines()) == 4, 10, "the list")
        for turn in range(3):
            job = self.start("--gpu-share", "0.5")
            if turn == 1:
                self.pool.placer.kill()
                for each in (watch, text):
                    wait_for(lambda: "is not there any more" in each.said(), 10, "the sentence")
                self.assertEqual(self.pool.joins(), 1)
                self.pool.placer = self.pool.start_placer()
                wait_for(lambda: self.pool.joins() == 2, 20, "the server's joining")
            if turn == 2:
                for each in (watch, text):
                    wait_for(lambda: "sock is back" in each.said(), 10, "the sentence")
                self.pool.placer.stop()
                for each in (watch, text):
                    wait_for(lambda: each.said().count("is not there any more") == 2, 10, "the sentence")
                self.pool.placer = self.pool.start_placer()
                wait_for(lambda: self.pool.joins() == 3, 20, "the server's joining")
            self.end_all(job)
        wait_for(lambda: words_of(self.events()).count("release done") == 4, 10, "the events")
        all_events = self.events()
        wait_for(lambda: len(watch.lines()) >= len(all_events), 10, "the events")
        self.assertEqual(watch.objects(), all_events)
        self.assertEqual(words_of(all_events).count("start done"), 3)
        numbers = [event["number"] for event in all_events]
        self.assertEqual(numbers, sorted(set(numbers)))
        wait_for(lambda: len(text.lines()) >= 13, 10, "the lines")
        self.assertEqual("".join(line + "\n" for line in text.lines()), self.ask("audit", "--of", ME))
        for each in (watch, text):
            wait_for(lambda: each.said().count("sock is back") == 2, 10, "the sentence")
            self.assertRegex(each.said(), r"\A(tessera: the placer at \S+ is not there any more: this waits until it is back\n"
                                          r"tessera: the placer at \S+ is back\n){2}\Z")
            self.assertEqual(each.end(), -signal.SIGINT)

    def test_nobody_waits_for_one_who_does_not_read(self):
        slow = subprocess.Popen([TESSERA, "events", "--watch", "--placer", self.pool.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        end_with_test(slow)
        self.addCleanup(slow.stdout.close)
        self.addCleanup(slow.kill)
        self.assertIn(b"TIME", slow.stdout.readline())
        slow.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        for _ in range(5):
            self.assertEqual(self.pool.run("--gpu-share", "0.5", "--", "true").returncode, 0)
        self.assertLess(time.monotonic() - began, 40)

    def test_get_as_yaml_is_what_it_is_as_json(self):
        job = self.start("--gpu-share", "0.5")
        for what in ("servers", "gpus", "grants"):
            text = self.ask("get", what, "-o", "yaml")
            told = json.loads(self.ask("get", what, "-o", "json"))
            self.assertEqual(text.splitlines()[0], what + ":")
            # Each field of the first one, in the order of the names.
            names = re.findall(r"^  [- ] (\w+):", text, re.MULTILINE)
            self.assertEqual(names[:len(told[what][0])], sorted(told[what][0]))
            try:
                import yaml
            except ImportError:
                continue
            self.assertEqual(yaml.safe_load(text), told)
        self.end_all(job)
        self.assertEqual(self.ask("get", "grants", "-o", "yaml"), "grants: []\n")

    def test_get_watches(self):
        text = self.watch("get", "gpus", "--watch", "-o", "wide")
        objects = self.watch("get", "grants", "-w", "-o", "json")
        documents = self.watch("get", "grants", "-w", "-o", "yaml")
        main, its = pty.openpty()
        self.addCleanup(os.close, main)
        screen = subprocess.Popen([TESSERA, "get", "grants", "-w", "--placer", self.pool.url], stdout=its, stderr=subprocess.DEVNULL, env=environment())
        end_with_test(screen)
        os.close(its)
        self.addCleanup(screen.wait)
        self.addCleanup(screen.kill)
        wait_for(lambda: len(text.lines()) == 3, 10, "the table")
        before = text.read(text.out)
        self.assertEqual(before, self.ask("get", "gpus", "-o", "wide"))
        job = self.start("--gpu-share", "0.25")
        [grant] = json.loads(self.ask("get", "grants", "-o", "json"))["grants"]
        wait_for(lambda: len(text.lines()) == 4 and objects.objects(), 10, "the changes")
        # The row of the one GPU, and nothing else.
        [changed] = [row for row in rows(self.ask("get", "gpus", "-o", "wide")) if row["SHARE GRANTED"] == "0.25"]
        self.assertEqual(re.split("  +", text.lines()[3]), list(changed.values()))
        self.assertEqual(objects.objects(), [grant])
        self.end_all(job)
        wait_for(lambda: len(objects.lines()) == 2 and "gone: true" in documents.read(documents.out), 10, "the end")
        self.assertEqual(objects.objects()[1], {"grant": grant["grant"], "gone": True})
        self.assertRegex(documents.read(documents.out), rf"\A---\nasked:\n(.*\n)+---\ngone: true\ngrant: \"?{grant['grant']}\"?\n\Z")
        # A terminal shows all again from an empty screen.
        shown = ""
        while shown.count("\x1b[H\x1b[2J") < 3:
            shown += os.read(main, 65536).decode()
        self.assertIn(grant["grant"], shown.split("\x1b[H\x1b[2J")[2])
        self.assertNotIn(grant["grant"], shown.split("\x1b[H\x1b[2J")[3])
        # The placer is started anew.
        self.pool.placer.stop()
        wait_for(lambda: "is not there any more" in text.said(), 10, "the sentence")
        self.pool.placer = self.pool.start_placer()
        wait_for(lambda: text.said().count("\n") == 2, 10, "the sentence")
        self.assertRegex(text.said().splitlines()[1], "sock is back$")
        for watch in (text, objects, documents):
            self.assertEqual(watch.end(), -signal.SIGINT)

    def test_a_placer_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as place:
            for command in ("events", "audit"):
                self.assertIn("start tessera-placer", say(command, "--watch", "--placer", f"unix:{place}/nothing", code=80))
            self.assertIn("of another release", say("events", "--placer", "unix:" + self.pool.servers[0].path + ".control", code=74))


class Command(unittest.TestCase):
    def test_command_lines(self):
        for words, part in ((("events", "--since", "yesterday"), "'yesterday' is no time: write 2026"), (("audit", "--until", "5"), "is no time"),
                            (("events", "-o", "wide"), "wide"), (("events", "--of", "a\x1b"), "is no server, grant or holder"),
                            (("audit", "--of", "a" * 257), "256 characters"), (("events", "-w", "--until", "1h"), "--until"), (("events", "x"), "x")):
            said = say(*words, code=2)
            self.assertIn(part, said)
            self.assertIn(f"see 'tessera {words[0]} --help'", said)
        for command in ("events", "audit"):
            self.assertIn("Exit codes", say(command, "--help"))
            self.assertIn(f"\n  {command} ", say("--help"))


class Roles(unittest.TestCase):
    """People by their certificates, at a placer of tls://."""

    def setUp(self):
        keys = Keys()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.keys, self.policy = keys, os.path.join(place.name, "policy.toml")
        self.write_policy('"name:alice" = "tenant"\n"name:carol" = "tenant"\n"name:wall" = "viewer"\n"name:boss" = "admin"\nothers = "nobody"\n')
        self.pool = Pool("--listen", "tls://127.0.0.1:0", *keys.options("server", "localhost,127.0.0.1"), "--policy", self.policy)
        self.addCleanup(self.pool.stop)
        self.url = re.search(r"tls://127.0.0.1:\d+", self.pool.placer.ready).group()

    def write_policy(self, roles):
        with open(self.policy + ".new", "w") as policy:
            policy.write("[roles]\n" + roles)
        os.rename(self.policy + ".new", self.policy)

    def ask(self, name, *words, code=0):
        return say(*words, "--placer", self.url, code=code, HOME="/nonexistent", **self.keys.environment("client", name))

    def events(self, name, command="events"):
        return json.loads(self.ask(name, command, "-o", "json"))["events"]

    def test_who_sees_what_and_what_is_remembered(self):
        mine, waits = full_and_wanted(self, self.url, self.keys)
        [grant] = json.loads(self.ask("alice", "get", "grants", "-o", "json"))["grants"]
        self.ask("wall", "grants", "release", grant["grant"], code=73)
        self.ask("stranger", "get", "servers", code=73)
        self.ask("boss", "grants", "release", grant["grant"], "--reason", "gpu7 is repaired")
        self.assertEqual(waits.wait(20), 81)
        # A broken policy is told and changes nothing; the next one is taken up.
        self.write_policy("nonsense\n")
        self.ask("boss", "get", "servers")
        self.write_policy('"name:alice" = "tenant"\n"name:wall" = "viewer"\n"name:boss" = "admin"\nothers = "nobody"\n')
        self.ask("carol", "events", code=73)
        for command, part in (("audit", "may not see the audit"), ("audit", "-w")):
            self.assertIn("may not see the audit", self.ask("alice", "audit", *(["-w"] if part == "-w" else []), code=73))
        wait_for(lambda: re.search("name:alice +audit", self.ask("boss", "audit")), SHORT_S, "the record")
        audit = [(event["actor"], event["action"], event["outcome"], event["object"]) for event in self.events("boss", "audit")]
        for record in (("placer", "policy", "done", self.policy), ("name:alice", "ask", "done", grant["grant"]),
                       ("name:wall", "release", "refused", grant["grant"]), ("name:stranger", "list", "refused", ""),
                       ("name:boss", "revoke", "done", grant["grant"]), ("placer", "policy", "failed", self.policy),
                       ("name:carol", "events", "refused", ""), ("name:alice", "audit", "refused", "")):
            self.assertIn(record, audit)
        self.assertEqual(self.events("wall", "audit"), self.events("boss", "audit"))
        [revoked] = [event for event in self.events("alice") if event["action"] == "revoke"]
        self.assertEqual(revoked["text"], "by name:boss: gpu7 is repaired")
        # Her own, and servers; nothing of another's, and nothing of the placer.
        self.assertEqual({event["holder"] for event in self.events("alice")}, {"name:alice", ""})
        self.assertEqual({event["action"] for event in self.events("alice") if not event["holder"]}, {"join"})
        self.assertIn(f"uid:{os.getuid()}", {event["holder"] for event in self.events("wall")})
        # A watch sees no more than its holder may, and less when he may less.
        watch = Watch("events", "--watch", "-o", "json", "--placer", self.url, HOME="/nonexistent", **self.keys.environment("client", "alice"))
        self.addCleanup(watch.end)
        wait_for(lambda: len(watch.lines()) == len(self.events("alice")), 10, "the list")
        mine.stdin.close()
        self.assertEqual(mine.wait(20), 0)
        wait_for(lambda: "release done" in words_of(self.events("boss")), 10, "the end")
        self.pool.servers.pop().stop()
        wait_for(lambda: watch.objects()[-1]["action"] == "leave", 20, "the server's leaving")
        self.assertEqual(watch.objects(), self.events("alice"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
