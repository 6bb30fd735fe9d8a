#!/usr/bin/env python3
"""The scripts of this directory do what they say, on the emulated GPU, and where they can be compared with something they are
right. Not how fast anything is.

usage: bench_test.py BUILD_DIRECTORY
"""
import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))
from product import AGENT, BUILD, TESSERA, environment  # noqa: E402

EXAMPLE = os.path.join(HERE, "figures", "emulated_sweep.json")
EXAMPLE_ROWS = "^(caller|steps|launch_synchronize|read_4|.*pinned/64MiB|to_device/pageable/64MiB)"
SVG = "{http://www.w3.org/2000/svg}"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment())


def script(name, *words):
    return run(sys.executable, os.path.join(HERE, name), *words)



def add_event(events, kind, category, thread, at, **more):
    """An event of a trace, of a thread of the program (below 200) or of a worker."""
    events.append({"ph": kind, "cat": category, "pid": thread // 100, "tid": thread, "ts": at, "name": category, **more})


class Scripts(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.output = os.path.join(self.directory.name, "figures.json")

    def measure(self, name, *words):
        """Its table and its figures."""
        done = script(name, BUILD, "-o", self.output, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.output) as file:
            return done.stdout, json.load(file)

    def test_grants_of_a_pool(self):
        done = run(os.path.join(BUILD, "bin/placer_bench"), os.path.join(self.directory.name, "placer.db"), "--rate", "50", "--seconds", "1", "--turns", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        turns, median = [json.loads(line) for line in done.stderr.splitlines()], json.loads(done.stdout)
        self.assertEqual(len(turns), 3)
        for name, value in median.items():
            self.assertEqual(value, sorted(turn[name] for turn in turns)[1])
        done = script("pool", BUILD, "--turns", "1", "--seconds", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(json.loads(done.stdout.splitlines()[-1])["granted_per_s"], 0)

    def test_every_row_every_way(self):
        rows = ("launch_synchronize", "to_device/pinned/1MiB")
        table, figures = self.measure("run", "--links", "channel,tcp,tls", "--filter", f"^({'|'.join(rows)})$",
                                      "--seconds", "0.01", "--repetitions", "2")
        self.assertEqual(tuple(figures["rows"]), rows)
        for row in rows:
            self.assertIn(row, table)
            for way in ("channel", "tcp", "tls"):
                self.assertGreater(figures["rows"][row][way], 0)
                self.assertEqual(len(figures["all"][row][way]), 2)
        self.assertEqual(figures["bytes"][rows[1]], 1 << 20)
        self.assertEqual(figures["about"]["gpu"], "emulated")

    def test_two_builds_in_turns(self):
        rows = ("launch_synchronize", "to_device/pinned/1MiB")
        done = script("compare", BUILD, BUILD, "-o", self.output, "--turns", "2", "--links", "channel", "--filter",
                      f"^({'|'.join(rows)})$", "--seconds", "0.01")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.output) as file:
            figures = json.load(file)
        self.assertEqual({(one["row"], one["way"]) for one in figures}, {(row, "channel") for row in rows})
        for one in figures:
            self.assertIn(one["row"], done.stdout)
            for build in ("before", "after"):
                self.assertEqual(len(one[build]), 2)
                self.assertGreater(min(one[build]), 0)
        self.assertNotEqual(script("compare", BUILD, self.directory.name, "--links", "channel").returncode, 0)

    def test_stages_of_calls(self):
        trace = os.path.join(self.directory.name, "trace.json")
        bench = os.path.join(BUILD, "bin", "driver_bench")
        done = subprocess.run([TESSERA, "run", "--quiet", "--driver", "emulator", "--", bench, "--filter", "^launch_synchronize$|^from_device/registered/1MiB$", "--seconds", "0.1"],
                              capture_output=True, text=True, timeout=60, env={**environment(), "TESSERA_TRACE": trace})
        self.assertEqual(done.returncode, 0, done.stderr)
        done = script("stages", trace, "--calls", "5", "-o", self.output)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.output) as file:
            table = json.load(file)
        wait = table["cuStreamSynchronize"]
        self.assertIn("cuStreamSynchronize", done.stdout)
        self.assertTrue(0 < wait["prepare"] < wait["call"] and wait["way"] >= 0 and wait["execute"] > 0, wait)
        self.assertLess(wait["prepare"] + wait["way"], wait["call"])
        self.assertGreater(table["cuLaunchKernel"]["execute"], 0)
        copies = [row for name, row in table.items() if name.startswith("cuMemcpyDtoHAsync_v2 of ")]
        self.assertEqual(len(copies), 1, done.stdout)
        for visit in copies[0]["visits"]:
            order = [visit[stage] for stage in ("sent", "reached", "asked", "begun", "worked", "answered")]
            self.assertEqual(order, sorted(order), visit)
            self.assertLess(visit["sent"], visit["executed"])
        self.assertLess(copies[0]["returned"], copies[0]["next"])
        self.assertLess(copies[0]["visits"][-1]["answered"], copies[0]["next"])

    def stages_of(self, events):
        """What `stages` says of a trace of these events."""
        trace = os.path.join(self.directory.name, "trace.json")
        with open(trace, "w") as file:
            json.dump({"traceEvents": events}, file)
        done = script("stages", trace, "--calls", "2", "-o", self.output)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.output) as file:
            return json.load(file)

    def test_stages_add_up(self):
        events = []
        add = functools.partial(add_event, events)
        for i in range(0, 300, 100):
            # A launch that nobody waits for, and a wait whose answer takes until 90. What is said between them is the wait's own.
            add("X", "call", 1, i, dur=3, name="cuLaunchKernel")
            add("X", "call", 1, i + 10, dur=80, name="cuStreamSynchronize")
            for sent, begun, dur in ((1, 5, 20), (12, 30, 4), (15, 40, 6)):
                add("s", "record", 1, i + sent, id=i + sent)
                add("f", "record", 200, i + begun, id=i + sent)
                add("X", "execution", 200, i + begun, dur=dur)
        add("X", "call", 1, 400, dur=1, name="cuCtxGetCurrent")
        self.assertEqual(self.stages_of(events), {
            "cuLaunchKernel": {"calls": 3, "call": 3, "prepare": 1, "way": 4, "execute": 20},
            "cuStreamSynchronize": {"calls": 3, "call": 80, "prepare": 5, "way": 25, "execute": 6, "back": 44}})

    def test_stages_of_visits_since_the_call(self):
        events = []
        add = functools.partial(add_event, events)
        for i in range(0, 300, 100):
            add("X", "call", 1, i, dur=9, name="cuMemcpyDtoHAsync_v2")
            add("X", "call", 1, i + 10, dur=80, name="cuStreamSynchronize")
            for sent in (3, 6):
                one = f"2.{i + sent}"
                add("s", "record", 1, i + sent, id=one)
                add("f", "record", 200, i + sent + 10, id=one)
                add("X", "execution", 200, i + sent + 10, dur=2)
                add("X", "visited", 200, i + sent + 20, dur=30, args={"id": one})
                add("X", "visit", 100, i + sent + 24, dur=20, args={"id": one, "asked": i + sent + 21, "worked": i + sent + 40})
        shown = self.stages_of(events)["cuMemcpyDtoHAsync_v2 of 2"]
        self.assertEqual(shown, {"calls": 3, "returned": 9, "next": 90, "visits": [
            {"sent": sent, "executed": sent + 12, "reached": sent + 20, "asked": sent + 21, "begun": sent + 24, "worked": sent + 40,
             "answered": sent + 50} for sent in (3, 6)]})

    def test_stages_of_something_else(self):
        done = script("stages", os.path.join(HERE, "README.md"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be read as a trace", done.stderr)

    def test_what_shadows_could_reach(self):
        bench = os.path.join(BUILD, "bin", "shadow_bench")
        emulated = (TESSERA, "run", "--quiet", "--driver", "emulator", "--", bench)
        done = run(*emulated, "--threads", "1,2", "--mib", "1,64", "--ways", "product,past,blocks", "--seconds", "0.001", "-o", self.output)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.output) as file:
            figures = json.load(file)
        for direction in ("to_device", "from_device"):
            for way in ("product", "past", "blocks"):
                self.assertEqual(set(figures[direction][way]), {"1", "2"})
                for row in figures[direction][way].values():
                    self.assertGreater(min(row["alone"], row["beside"], row["dma_beside"], *row["ring"].values()), 0)
            best = max(row["ring"]["64"] for way in ("product", "past", "blocks") for row in figures[direction][way].values())
            self.assertAlmostEqual(figures[direction]["best_of_dma"]["64"], best / figures[direction]["dma"]["64"])
        self.assertIn("the best ring is", done.stdout)
        self.assertEqual(run(*emulated, "--no-such-word").returncode, 2)

    def test_what_processes_use(self):
        # An idle session that is not idle ends it with 1.
        table, figures = self.measure("usage", "--links", "channel,tcp", "--works", "idle,launches,to_device_pageable,memory",
                                      "--seconds", "0.3")
        self.assertIn("s/million", table)
        for way, roles in (("channel", {"wall", "caller", "others", "worker", "tesserad"}),
                           ("tcp", {"wall", "caller", "others", "agent", "gateway", "worker", "tesserad"})):
            used = figures["processor_s"]["launches"][way]
            self.assertEqual(set(used), roles)
            self.assertGreater(used["caller"], 0)
            self.assertGreater(used["worker"], 0)
            steps = figures["memory_mib"][way]
            self.assertEqual(list(steps), ["start", "cuInit", "context", "kernel", "copies"])
            grown_mib = steps["kernel"]["program"]["own_mib"] - steps["start"]["program"]["own_mib"]
            self.assertLess(grown_mib, 20, "the library in the program's process")
            self.assertGreater(steps["copies"]["program"]["shared_mib"], 64, "pinned memory is shared with the server, or the agent")
        self.assertGreater(figures["processor_s"]["to_device_pageable"]["tcp"]["agent"], 0)

    def test_a_sweep_adds_what_it_says(self):
        table, figures = self.measure("sweep", "--round-trips", "0,2", "--rates", "1", "--seconds", "0.01",
                                      "--filter", "^(synchronize_idle_context|to_device/pinned/1MiB)$")
        self.assertIn("geometric mean", table)
        points = {(point["round_trip_ms"], point["rate_gbit"]): point["rows"] for point in figures["points"]}
        self.assertEqual(set(points), {(0, None), (2, None), (0, 1)})
        self.assertGreaterEqual(points[2, None]["synchronize_idle_context"]["us"], 2000)
        self.assertLess(points[0, None]["synchronize_idle_context"]["us"], 2000)
        self.assertGreaterEqual(points[0, 1]["to_device/pinned/1MiB"]["us"], (1 << 20) * 8 / 1e9 * 1e6)
        for rows in points.values():
            for row in rows.values():
                self.assertAlmostEqual(row["ratio"], row["us"] / row["base_us"])

    def test_the_start(self):
        table, figures = self.measure("start", "--repetitions", "1")
        self.assertIn("first kernel", table)
        self.assertEqual({len(rows[0]) for rows in figures["milliseconds"].values()}, {3})

    def test_short_programs(self):
        table, figures = self.measure("short", "--at-once", "1,2", "--count", "2")
        self.assertIn("at once", table)
        self.assertEqual({way: {number: len(row) for number, row in rows.items()} for way, rows in figures["milliseconds"].items()},
                         {"channel": {"1": 2, "2": 4}})

    def test_starts_of_two_builds(self):
        table, figures = self.measure("compare_starts", BUILD, "--pairs", "1", "--starts", "1")
        self.assertIn("not decided 1 pairs, 20 are needed", table)
        self.assertEqual({link: (len(row["ms"]), len(row["ms_same"])) for link, row in figures["links"].items()}, {"channel": (1, 1), "tcp": (1, 1)})

    def test_pictures_are_those_of_the_example(self):
        done = script("plot", EXAMPLE, "--rows", EXAMPLE_ROWS, "-o", self.directory.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, unit in (("round_trips.svg", "ms"), ("rates.svg", "Gbit/s")):
            with open(os.path.join(self.directory.name, name)) as file:
                drawn = file.read()
            root = xml.etree.ElementTree.fromstring(drawn)
            words = [text.text for text in root.iter(SVG + "text")]
            self.assertTrue(any(word.endswith(unit) for word in words), words)
            self.assertIn("time / time over the channel alone", words)
            self.assertIn("prefers-color-scheme:dark", drawn)
            lines = list(root.iter(SVG + "polyline"))
            self.assertEqual(len(lines), 8)
            width, height = float(root.get("width")), float(root.get("height"))
            for line in lines:
                for point in line.get("points").split():
                    x, y = map(float, point.split(","))
                    self.assertTrue(0 < x < width and 0 < y < height, point)
            with open(os.path.join(HERE, "figures", name)) as file:
                self.assertEqual(file.read(), drawn, f"draw it again: tests/bench/plot {EXAMPLE} --rows '{EXAMPLE_ROWS}'")

    def test_what_cannot_be_drawn_is_said(self):
        done = script("plot", EXAMPLE, "--rows", "no such row", "-o", self.directory.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing to draw", done.stderr)

    def test_targets_are_reached_missed_or_not_measured(self):
        def targets(**figures):
            for name, content in figures.items():
                with open(os.path.join(self.directory.name, name + ".json"), "w") as file:
                    json.dump(content, file)
            done = script("targets", self.directory.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            return {(line[:14].strip(), line[15:61].strip()): line[93:101].strip() for line in done.stdout.splitlines()}

        self.assertEqual(set(targets().values()), {""})
        times = {"caller/launch_3_arguments": (3, 0.1), "launch_synchronize": (8, 9.5), "to_device/pinned/64MiB": (1000, 1010),
                 "from_device/pinned/256MiB": (5000, 5500), "to_device/pinned/1MiB": (1, 100),
                 "to_device/registered/1MiB": (20, 28), "from_device/registered/64MiB": (1000, 1500),
                 "to_device/registered/64KiB": (1, 9)}
        rows = {row: {"native": native, "channel": channel} for row, (native, channel) in times.items()}
        self.assertEqual(set(targets(driver={"about": {"gpu": "emulated"}, "rows": rows}).values()), {""})
        point = {"round_trip_ms": 1, "rate_gbit": None, "rows": {"train": {"ratio": 1.01}, "decode": {"ratio": 9}}}
        found = targets(driver={"about": {"gpu": "a real one"}, "rows": rows}, sweep_suites={"points": [point]},
                        suites={"ratios": {"channel": {"a": [0.9, 1.0], "b": [1.04]}}})
        reached = {name for name, verdict in found.items() if verdict == "reached"}
        missed = {name for name, verdict in found.items() if verdict == "missed"}
        self.assertEqual(reached, {("channel", "caller's cost of cuLaunchKernel, 3 arguments"), ("1 ms more", "training"),
                                   ("channel", "framework workloads, geometric mean of T")})
        self.assertEqual(missed, {("channel", "launch + synchronize"), ("channel", "pinned copies from 64 MiB"),
                                  ("channel", "copies of registered memory from 1 MiB"), ("channel", "the worst of them")})
        rows["from_device/registered/64MiB"]["channel"] = 1450
        found = targets(driver={"about": {"gpu": "a real one"}, "rows": rows})
        self.assertEqual(found["channel", "copies of registered memory from 1 MiB"], "reached")

    def test_what_they_do_not_understand(self):
        for name in ("run", "start", "compare_starts", "short", "usage", "sweep", "suites", "targets"):
            done = script(name)
            self.assertEqual(done.returncode, 2, name)
            self.assertIn(f"usage: {name} ", done.stdout)
        done = script("run", BUILD, "--links", "pigeon")
        self.assertEqual(done.returncode, 1)
        self.assertIn("channel,tcp,tls,ucx", done.stderr)


class Impairments(unittest.TestCase):
    def test_one_that_says_nothing_is_refused(self):
        bad = ["--impair", "delay=1", "--server", "tcp://127.0.0.1:1"]
        for command in ([TESSERA, "run", *bad, "--", "true"], [AGENT, "--listen", "unix:/nowhere/agent.sock", *bad]):
            done = run(*command)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("delay=0.05ms,rate=10gbit", done.stderr)

    def test_one_of_no_link_is_refused(self):
        for words in ([], ["--server", "unix:/nowhere"]):
            done = run(TESSERA, "run", "--impair", "delay=1ms", *words, "--", "true")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("there is none", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
