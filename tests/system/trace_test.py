#!/usr/bin/env python3
"""TESSERA_TRACE: a file that tells when each call was made, when its record left, when the server ran it, and when the GPU had it;
and `tessera trace`.

usage: trace_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from product import TESSERA, Server, environment

CLIENT = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "round_trips_client.py")]
COMM = os.path.basename(sys.executable)[:15]  # of its first thread
ROOT = pathlib.Path(__file__).resolve().parents[2]
# What each phase of Google's "Trace Event Format" must have, besides "ph", "name" and "pid".
PHASES = {"M": {"args"}, "X": {"tid", "ts", "dur", "cat"}, "b": {"tid", "ts", "cat", "id"}, "e": {"tid", "ts", "cat", "id"},
          "s": {"tid", "ts", "cat", "id"}, "f": {"tid", "ts", "cat", "id", "bp"}}


def within(slices):
    """The slices of one lane that end after one in which they began: viewers show no such thing."""
    wrong, stack = [], []
    for one in sorted(slices, key=lambda one: (one["ts"], -one["dur"])):
        while stack and stack[-1] <= one["ts"]:
            stack.pop()
        if stack and one["ts"] + one["dur"] > stack[-1] + 0.002:
            wrong.append(one)
        stack.append(one["ts"] + one["dur"])
    return wrong


class Traced(unittest.TestCase):
    def trace(self, **how):
        server = Server(**how)
        try:
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "trace.json")
                done = subprocess.run([TESSERA, "run", "--quiet", "--server", server.url, "--", *CLIENT],
                                      env=environment(TESSERA_TRACE=path), capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                with open(path) as file:
                    trace = json.load(file)
        finally:
            server.stop()
        other = trace["otherData"]
        self.assertEqual((other["tessera_trace"], other["events_lost"]), (1, 0))
        self.check_form(trace)
        return trace["traceEvents"]

    def check_form(self, trace):
        """The rules of the Trace Event Format."""
        events = trace["traceEvents"]
        lanes, pairs = {}, {}
        for event in events:
            phase = event["ph"]
            self.assertLessEqual(PHASES[phase] | {"name", "pid"}, set(event), event)
            for number in {"pid", "tid"} & set(event):
                self.assertIsInstance(event[number], int, event)
            for number in {"ts", "dur"} & set(event):
                self.assertIsInstance(event[number], float, event)
                self.assertGreaterEqual(event[number], 0, event)
            if phase == "M":
                self.assertIn(event["name"], ("process_name", "thread_name"))
                self.assertIsInstance(event["args"]["name"], str)
            elif phase == "X":
                lanes.setdefault((event["pid"], event["tid"]), []).append(event)
            else:
                kind = {"b": "async", "e": "async", "s": "flow", "f": "flow"}[phase]
                pairs.setdefault((kind, event["cat"], event["name"], event["id"]), []).append(event)
        for events_of in pairs.values():
            self.assertEqual([event["ph"] for event in events_of] in (["b", "e"], ["s", "f"]), True, events_of)
            self.assertLessEqual(events_of[0]["ts"], events_of[1]["ts"])
        for (process, lane), slices in lanes.items():
            if lane != 0 or process == max(lanes)[0]:  # visits of several streams share lane 0 of the program and of the worker
                self.assertEqual(within(slices), [])
        named = {event["pid"] for event in events if event["name"] == "process_name"}
        self.assertEqual({event["pid"] for event in events} - named, set())
        # An arrow ends at a slice that begins there.
        begins = {(event["pid"], event["tid"], event["ts"]) for slices in lanes.values() for event in slices}
        self.assertEqual([event for event in events if event["ph"] == "f" and
                          (event["bp"] != "e" or (event["pid"], event["tid"], event["ts"]) not in begins)], [])

    def check_gpu(self, events):
        """Each launch has its kernel's name, and a slice of its stream's lane on the program's clock."""
        calls = [event for event in events if event.get("cat") == "call" and event["name"] == "cuLaunchKernel"]
        kernels = {call["args"]["kernel"] for call in calls}
        self.assertIn("write", kernels)
        self.assertEqual([kernel for kernel in kernels if not re.fullmatch(r"write|k\d+_\d+", kernel)], [])
        runs = [event for event in events if event.get("cat") == "execution" and event["name"] == "cuLaunchKernel"]
        self.assertEqual({run["args"]["thread"] for run in runs}, {call["tid"] for call in calls})
        lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 3}
        work = [event for event in events if event.get("cat") == "gpu"]
        self.assertEqual({event["pid"] for event in work}, {3})
        self.assertEqual({f"stream {event['tid']}" for event in work}, set(lanes.values()))
        self.assertGreater(len(work), len(calls) * 9 // 10)
        by_record = {int(event["id"].split(".")[1]): event["ts"] for event in events if event["ph"] == "f"}
        first, last = (edge(call["ts"] for call in events if call.get("cat") == "call") for edge in (min, max))
        for one in work:
            self.assertGreaterEqual(one["ts"] + 50, by_record[one["args"]["record"]], "it ran before the worker had it")
            self.assertTrue(first <= one["ts"] <= last, one)

    def check(self, events, way):
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(sorted(names), [1, 2, 3])
        self.assertEqual(names[3], names[2].replace("worker of", "GPU of"))
        self.check_gpu(events)
        self.assertEqual(names[1], os.path.basename(sys.executable))
        slices = [event for event in events if event["ph"] == "X" and event["pid"] != 3]
        calls, ran = ([event for event in slices if event["pid"] == pid and not event["cat"].startswith("visit")] for pid in (1, 2))
        # Each thread that called has its name, and questions for functions' addresses are left out.
        threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 1}
        self.assertEqual({call["tid"] for call in calls} - set(threads), set())
        self.assertIn(COMM, threads.values())
        self.assertEqual([call for call in calls if call["name"].startswith("cuGetProcAddress")], [])
        # A visit is seen on both sides.
        visits, visited = ([event["args"]["id"] for event in slices if event["cat"] == side] for side in ("visit", "visited"))
        self.assertEqual(visits, visited)
        self.assertEqual(len([call for call in calls if call["name"] == "cuInit"]), 1)
        launches = [call for call in calls if call["name"] == "cuLaunchKernel"]
        self.assertGreater(len(launches), 0)
        self.assertEqual(len([event for event in ran if event["name"] == "cuLaunchKernel"]), len(launches))
        for event in calls + ran:
            self.assertGreaterEqual(event["dur"], 0)
        # Every execution has waited, and an arrow leads to it from a call of its name that was under way.
        begins, ends, starts, finishes = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "besf")
        self.assertEqual(len(begins), len(ran))
        self.assertEqual(set(begins), set(ends))
        self.assertEqual(set(starts), set(finishes))
        self.assertEqual(set(begins), set(starts))
        self.assertEqual({event["cat"] for event in begins.values()}, {way})
        executions = {(event["name"], event["ts"]) for event in ran}
        called = {}
        for call in calls:
            called.setdefault((call["name"], call["tid"]), []).append(call["ts"])
        for name, begin in begins.items():
            self.assertLessEqual(begin["ts"], ends[name]["ts"])
            self.assertIn((begin["name"], ends[name]["ts"]), executions)
            self.assertLessEqual(min(called[begin["name"], starts[name]["tid"]]), starts[name]["ts"] + 1)

    def test_on_one_host(self):
        self.check(self.trace(), "queue")

    def test_between_hosts(self):
        self.check(self.trace(tcp=True), "link and queue")

    def run_tree(self, path, **variables):
        """A shell, and two processes of it that use the GPU at once, then a third."""
        client = f'"{sys.executable}" -c "import ctypes; ctypes.CDLL(\'libcuda.so.1\').cuInit(0)"'
        done = subprocess.run([TESSERA, "run", "--quiet", "--driver", "emulator", "--", "sh", "-c", f"{client} & {client}; wait; {client}"],
                              env=environment(**variables), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(os.listdir(os.path.dirname(path)))

    def test_every_process_of_a_run_keeps_its_files(self):
        for variable in ("TESSERA_TRACE", "TESSERA_STATS"):
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "file.json")
                first = self.run_tree(path, **{variable: path})
                self.assertEqual(len(first), 3)
                self.assertEqual(first[0], "file.json")
                for name in first:
                    with open(os.path.join(directory, name)) as file:
                        json.load(file)
                # Another run has the name again.
                old = os.stat(path).st_mtime_ns
                second = self.run_tree(path, **{variable: path})
                self.assertEqual(len(second), 5)
                self.assertGreater(os.stat(path).st_mtime_ns, old)
                numbered = self.run_tree(path, **{variable: os.path.join(directory, "of-%p.json")})
                self.assertEqual(len([name for name in numbered if re.fullmatch(r"of-\d+\.json", name)]), 3)

    def test_a_file_that_cannot_be_written_is_named(self):
        done = subprocess.run([TESSERA, "run", "--quiet", "--driver", "emulator", "--", *CLIENT],
                              env=environment(TESSERA_TRACE="/nowhere/trace.json"), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "warning: the trace could not be written to /nowhere/trace.json: No such file or directory; "
                                      r"name a file that this user may write \(TESSERA_TRACE\)\n$")


class Summary(unittest.TestCase):
    """`tessera trace summary`. What its output says is for docs/why-slow.md and its test, and for tests/netaware/trace."""

    TRACE = ('{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"train"}},\n'
             '{"ph":"X","name":"cuInit","cat":"call","pid":1,"tid":1,"ts":1.000,"dur":1.000,"args":{"waits":1}}\n'
             '],"otherData":{"tessera_trace":1,"events_lost":0,"launches_unmeasured":0}}\n')

    def summary(self, content, *options):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "trace.json")
            if content is not None:
                pathlib.Path(path).write_text(content)
            return subprocess.run([TESSERA, "trace", "summary", path, *options], capture_output=True, text=True, timeout=60, env=environment())

    def test_of_a_trace(self):
        self.assertRegex(self.summary(self.TRACE).stdout, r"^train: 1\.0 us from the first call to the last; 1 thread with calls")
        self.assertEqual(json.loads(self.summary(self.TRACE, "-o", "json").stdout)["wall_ns"], 1000)

    def test_bad_files(self):
        """Row by row of "Bad input to `tessera trace`"."""
        table = (ROOT / "netaware/cli/bad_input.md").read_text().split("## Bad input to `tessera trace`\n")[1].split("\n## ")[0]
        files = {"cannot be read": None, "ends before its end": self.TRACE[:len(self.TRACE) // 2], "is no trace": "[]",
                 "of another release": self.TRACE.replace('"tessera_trace":1', '"tessera_trace":2')}
        for sentence, content in files.items():
            done = self.summary(content)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertRegex(table, rf"(?m)^\|.*{sentence}.*\| {done.returncode} \|$")
        self.assertEqual(table.count("\n| "), len(files) + 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
