#!/usr/bin/env python3
"""`tessera status` and `tessera top` of a pool.

usage: pool_status_test.py BUILD_DIRECTORY
"""

import json
import os
import pty
import re
import subprocess
import sys
import unittest
from pathlib import Path

from pool_case import SHELL, PoolCase, close, say
from product import TESSERA, environment, the_server, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs"))
import marked  # noqa: E402

PAGE = Path(__file__).parents[3] / "docs/pool-gpus.md"


class Status(PoolCase):
    def setUp(self):
        self.begin(servers=2, devices=1)

    def status(self):
        return json.loads(self.ask("status", "-o", "json"))

    def wait(self, *words):
        job = self.pool.job(*words, "--", *SHELL)
        self.addCleanup(close, job)
        self.addCleanup(job.kill)
        self.assertIn("waiting", job.stderr.readline())
        return job

    def test_what_is_granted_waits_and_is_free(self):
        job = self.start("--gpu-share", "0.25", "--gpu-mem", "1G")
        waits = self.wait("--gpus", "2")
        told = self.status()
        totals = told["totals"]
        self.assertEqual((told["schema_version"], told["placer"]), (1, self.pool.url))
        self.assertEqual((totals["servers"], totals["gpus"], totals["granted_share"], totals["free_share"]), (2, 2, 0.25, 1.75))
        self.assertEqual((totals["grants"], totals["waiting"]), (1, 1))
        [grant], [waiting] = told["grants"], told["waiting"]
        self.assertEqual((grant["holder"], grant["state"], waiting["state"]), (f"uid:{os.getuid()}", "granted", "waiting"))
        # What the servers' own ledgers have.
        [(number, row)] = [(number, row) for (number, _), row in self.pool.grants().items()]
        [server] = [server for server in told["servers"] if server["granted_share"]]
        self.assertEqual(server["addresses"], ["unix:" + self.pool.servers[number - 1].path])
        self.assertEqual((server["granted_share"], server["grants"]), (0.25, 1))
        self.assertEqual(row["request"], 0.25)
        # The servers and GPUs are those of `get`.
        self.assertEqual([gpu for server in told["servers"] for gpu in server["gpus"]], json.loads(self.ask("get", "gpus", "-o", "json"))["gpus"])
        text = self.ask("status")
        self.assertIn("2 servers, 2 GPUs; of the GPUs' time 0.25 granted, 1.75 free; ", text)
        self.assertIn("1 grant and 1 that waits", text)
        self.assertLess(text.index(waiting["grant"]), text.index(grant["grant"]))
        wide = self.ask("status", "-o", "wide")
        for gpu in server["gpus"]:
            self.assertNotIn(gpu["uuid"], text)
            self.assertIn(gpu["uuid"], wide)
        self.assertIn("schema_version: 1\n", self.ask("status", "-o", "yaml"))
        # By the environment too; a server that is named passes the placer by.
        self.assertEqual(json.loads(say("status", "-o", "json", TESSERA_PLACER=self.pool.url)), told)
        url = "unix:" + self.pool.servers[0].path
        for changes in ({"TESSERA_SERVER": url}, {}):
            words = ("status", "-o", "json", *(() if changes else ("--server", url)))
            self.assertEqual(the_server(say(*words, TESSERA_PLACER=self.pool.url, **changes))["url"], url)
        waits.kill()
        # Before the other one ends: else it may be granted what nobody takes, until its lease has passed.
        wait_for(lambda: not self.status()["waiting"], 10, "the withdrawal of the job that was killed")
        self.end_all(job)
        self.assertEqual((self.status()["totals"]["free_share"], self.status()["grants"]), (2, []))

    def test_top_looks_again(self):
        lines = self.ask("top", "-o", "json", "--count", "3", "--interval", "0.1").splitlines()
        self.assertEqual([json.loads(line)["totals"]["servers"] for line in lines], [2, 2, 2])
        self.assertEqual(self.ask("top").count("SERVER "), 1)  # once where nobody looks on
        # On a terminal each look takes the place of the one before.
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        for words in (("top", "--interval", "0.1"), ("status", "--watch")):
            process = subprocess.Popen([TESSERA, *words, "--placer", self.pool.url], stdout=its, stderr=its, env=environment())
            seen = b""
            while seen.count(b"\x1b[H\x1b[2J") < 3:
                seen += os.read(ours, 4096)
            process.terminate()
            process.wait(10)
            self.assertIn(b"2 servers, 2 GPUs", seen)
        os.close(its)

    def test_what_cannot_be(self):
        url = "unix:" + self.pool.servers[0].path
        self.assertIn("leave one of them out", self.ask("status", "--server", url, code=2))
        self.assertIn("are of a pool", say("status", "--server", url, "-o", "wide", code=2))
        self.assertIn("are of a pool", say("status", "--server", url, "--watch", code=2))
        self.assertIn("is for servers", self.ask("top", "--insecure", code=2))
        self.assertIn("no placer at", say("status", "--placer", "unix:/nonexistent", code=80))
        self.assertIn("--interval", self.ask("top", "--interval", "0", code=2))

    def test_requests_are_the_grants_that_wait(self):
        self.assertEqual(self.ask("get", "requests"), "GRANT  HOLDER  ASKED  REASON\n")
        job = self.start("--gpu-share", "0.5")
        waits = self.wait("--gpus", "2", "--gpu-mem", "1G")
        grants = {grant["state"]: grant for grant in json.loads(self.ask("get", "grants", "-o", "json"))["grants"]}
        self.assertEqual(json.loads(self.ask("get", "requests", "-o", "json"))["requests"], [grants["waiting"]])
        line = self.ask("get", "requests").splitlines()[1]
        self.assertRegex(line, rf"\A{grants['waiting']['grant']}  uid:{os.getuid()}  +2 GPUs, 1:1 of each, 1 GiB  +2 GPUs wanted")
        waits.kill()
        self.end(job)

    def test_forms_for_programs(self):
        """YAML has what JSON has."""
        [server, _] = [server["server"] for server in self.status()["servers"]]
        job = self.start("--gpu-share", "0.5")
        [grant] = self.status()["grants"]
        for words in (("describe", "server", server), ("describe", "gpu", server + "/0"), ("describe", "grant", grant["grant"]), ("place", "--dry-run"),
                      ("drain", server, "--dry-run"), ("events",), ("get", "servers"), ("status",)):
            told = json.loads(self.ask(*words, "-o", "json"))
            lines = self.ask(*words, "-o", "yaml").splitlines()
            self.assertEqual([re.match("[a-z_]+:", line).group()[:-1] for line in lines if line[0] != " "], sorted(told), words)
        self.assertIn("state: released\n", self.ask("grants", "release", grant["grant"], "-o", "yaml"))
        self.assertIn("give --reason", say("grants", "revoke", grant["grant"], code=2))
        self.end(job)

    def test_the_page(self):
        """docs/pool-gpus.md shows what is shown."""
        section = PAGE.read_text().split("## See the pool")[1].split("\n## ")[0]
        self.assertEqual(marked.commands(section)[0], "tessera status")
        shown = section.split("```")[3].strip().splitlines()
        job = self.start("--gpu-share", "0.5")
        lines = self.ask("status").splitlines()
        # Words alone, and of the first line what is no number.
        self.assertEqual(re.sub(r"[\d.]+ ?[A-Z]iB|[\d.]+", "N", shown[0].split(": ", 1)[1]).replace("grants", "grant").split(" and ")[0],
                         re.sub(r"[\d.]+ ?[A-Z]iB|[\d.]+", "N", lines[0].split(": ", 1)[1]).split(", N session")[0])
        for head in (1, 4):
            self.assertEqual(shown[head].split(), next(line for line in lines if line.split()[0] == shown[head].split()[0]).split())
        self.end(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
