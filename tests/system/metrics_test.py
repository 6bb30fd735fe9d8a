#!/usr/bin/env python3
"""What a server tells of its vGPUs: over HTTP, to whoever misbehaves there, and to Debian's Prometheus.

usage: metrics_test.py BUILD_DIRECTORY
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from product import TESSERA, closed, end_with_test, environment, free_port, program, wait_for
from vgpu_test import VgpuTest, vgpu

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/watch-with-prometheus.md"
LINE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$', re.M)


class Metrics(VgpuTest):
    def serve(self, *specs, options=("--default", "none"), **more):
        self.port = free_port()
        super().serve(*specs, options=(*options, "--metrics", f"127.0.0.1:{self.port}"), **more)
        self.assertNotEqual(self.server.ready, "", self.server.words())
        wait_for(lambda: "tessera_vgpu_sessions" in self.fetch(), 10, "a word of the server's vGPUs")

    def fetch(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            return answer.read().decode()

    def values(self):
        """By name and vGPU, or name and mode, or name."""
        values = {}
        for name, labels, value in LINE.findall(self.fetch()):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            values[(name, labels.get("vgpu") or labels.get("mode"))] = float(value)
        return values

    def value(self, name, of=None):
        return self.values().get((name, of))

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.addCleanup(connection.close)
        return connection

    def answer_to(self, request):
        connection = self.connect()
        connection.sendall(request)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                got += piece
        return got


class WhatIsTold(Metrics):
    def test_what_a_program_did_is_counted_alone_on_a_gpu(self):
        self.serve(vgpu("a", 0.5))
        names = [f"tessera_vgpu_copied_{way}_gpu_bytes_total" for way in ("to", "from")]
        for memory in ("ordinary", "pinned"):
            before = self.values()
            copies = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", "a", "--", program("copy_loop"), memory],
                                      stdout=subprocess.DEVNULL, env=environment())
            self.addCleanup(copies.wait)
            self.addCleanup(copies.kill)
            wait_for(lambda: all(self.value(name, "a") >= before[name, "a"] + (64 << 20) for name in names), 60, f"copies of {memory} memory")
            self.assertGreaterEqual(self.value("tessera_vgpu_memory_held_bytes", "a"), 64 << 20)
            self.assertRegex(self.fetch(), r'tessera_vgpu_memory_kind_bytes\{vgpu="a",gpu="[^"]*",kind="allocations"\} [1-9]')
            copies.kill()
            copies.wait()
            # What it still counts is none of the next program's.
            wait_for(lambda: self.value("tessera_vgpu_memory_held_bytes", "a") == 0, 30, "the end of the session")
        done = self.run_in("a", program("graphs"))
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for(lambda: self.value("tessera_vgpu_graph_launches_total", "a") > 0, 30, "launches of graphs that are counted")
        values = self.values()
        self.assertGreater(values["tessera_vgpu_kernel_launches_total", "a"], 0)
        self.assertEqual(values["tessera_vgpu_busy_seconds_total", "a"], 0)  # it was alone: nothing is metered
        self.assertGreater(values["tessera_gpu_mode_seconds_total", "free"], 0)

    def test_promtool_finds_nothing_wrong(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is not installed (apt-get install prometheus)")
        self.serve(vgpu("a", 0.5, memory="64MiB"))
        checked = subprocess.run([promtool, "check", "metrics"], input=self.fetch(), capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_a_broker_that_is_started_anew_tells_again(self):
        self.serve(vgpu("a", 0.5))
        self.assertEqual(self.value("tessera_broker_restarts_total"), 0)
        os.kill(self.server.broker(), signal.SIGKILL)

        def restarts():
            with contextlib.suppress(OSError):
                return self.value("tessera_broker_restarts_total")
        wait_for(lambda: restarts() == 1, 20, "a word of the next broker")
        wait_for(lambda: self.value("tessera_vgpu_share_request_ratio", "a") == 0.5, 10, "its vGPUs")

    def test_its_memory(self):
        self.serve(*(vgpu(f"v{i}", 0.001) for i in range(200)), options=("--default", "none"))
        for _ in range(20):
            self.fetch()
        subprocess.run([TESSERA, "vgpu", "list", "--server", self.server.url], check=True, capture_output=True, env=environment())
        with open(f"/proc/{self.server.broker()}/smaps_rollup") as rollup:
            fields = dict(re.findall(r"(\w+): +(\d+) kB", rollup.read()))
        unshared = (int(fields["Private_Clean"]) + int(fields["Private_Dirty"])) / 1024
        print(f"tessera-broker with gRPC and metrics of 200 vGPUs: {unshared:.1f} MiB unshared")
        self.assertLessEqual(unshared, 40)


class BadInput(Metrics):
    def test_garbage_is_told_so(self):
        self.serve(vgpu("a", 0.5))
        self.assertIn(b"400 Bad Request", self.answer_to(b"\x16\x03\x01\x00\x00"))
        self.assertIn(b"404 Not Found", self.answer_to(b"GET / HTTP/1.1\r\n\r\n"))
        self.assertIn(b"405 Method", self.answer_to(b"POST /metrics HTTP/1.1\r\n\r\n"))
        self.assertIn(b"431 Request", self.answer_to(b"GET /" + b"x" * 4091))
        self.answer_to(os.urandom(100_000))
        self.assertIn("tessera_vgpu_sessions", self.fetch())

    def test_who_stalls_is_left(self):
        self.serve(vgpu("a", 0.5))
        stalled = self.connect()
        stalled.sendall(b"GET /metrics HT")
        begin = time.monotonic()
        self.assertEqual(stalled.recv(1), b"")
        self.assertLess(abs(time.monotonic() - begin - 5), 3)

    def test_of_many_that_stall_the_oldest_goes(self):
        self.serve(vgpu("a", 0.5))
        held = [self.connect() for _ in range(16)]
        time.sleep(0.2)
        self.assertIn("tessera_vgpu_sessions", self.fetch())
        for each in held:
            each.setblocking(False)
        self.assertEqual([closed(each) for each in held], [True] + 15 * [False])


class WithPrometheus(Metrics):
    def ask(self, query):
        words = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus_port}/api/v1/query?{words}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    def watch(self):
        prometheus = shutil.which("prometheus")
        if prometheus is None:
            self.skipTest("prometheus is not installed: nothing scrapes this server (apt-get install prometheus)")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        # The page's own, with this server's port and quicker.
        config = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)[1]
        config = config.replace("127.0.0.1:9464", f"127.0.0.1:{self.port}").replace("15s", "1s")
        self.assertIn(str(self.port), config)
        file = pathlib.Path(directory.name) / "prometheus.yml"
        file.write_text(config)
        self.prometheus_port = free_port()
        with open(os.path.join(directory.name, "log"), "w") as log:
            process = subprocess.Popen([prometheus, f"--config.file={file}", f"--storage.tsdb.path={directory.name}/data",
                                        f"--web.listen-address=127.0.0.1:{self.prometheus_port}"], stdout=log, stderr=log, cwd=directory.name)
        end_with_test(process)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def test_the_questions_of_the_page_have_answers(self):
        self.serve(vgpu("train", 0.7), vgpu("serve", 0.2, memory="256MiB"), vgpu("spare", 0.1))
        self.watch()
        self.tenant("train")
        self.tenant("serve")

        def is_scraped():
            with contextlib.suppress(OSError):
                return [each for each in self.ask("tessera_vgpu_busy_seconds_total > 3") if each["metric"]["vgpu"] == "train"]
        wait_for(is_scraped, 90, "three seconds of GPU time that Prometheus knows of")
        time.sleep(2)
        rows = re.findall(r"^\| ([^|]*\?) \| `([^`]*)` \|", PAGE.read_text(), re.M)
        self.assertGreaterEqual(len(rows), 8)
        for question, query in rows:
            with self.subTest(question):
                self.assertTrue(self.ask(query), query)
        shares = {each["metric"]["vgpu"]: float(each["value"][1])
                  for each in self.ask("rate(tessera_vgpu_busy_seconds_total[1m])") if "vgpu" in each["metric"]}
        self.assertGreater(shares["train"], shares["serve"])

    def test_every_name_is_on_the_page(self):
        self.serve(vgpu("a", 0.5, memory="64MiB"))
        page = PAGE.read_text()
        for name in re.findall(r"^# TYPE (\w+) ", self.fetch(), re.M):
            self.assertIn(f"`{name}`", page)


if __name__ == "__main__":
    unittest.main()
