#!/usr/bin/env python3
"""Shares of a GPU's time, from a file to what each program got, which is read in the emulated device's page.

usage: vgpu_test.py BUILD_DIRECTORY
"""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from product import BUILD, TESSERA, DevicePage, Server, end_with_test, environment, program, the_server, wait_for

# As tests/system/programs/occupy says: kernels of so many µs, more of them than anybody waits for.
MANY = "1000000"


def vgpu(name, request, limit=1.0, **more):
    fields = {"name": name, "request": request, "limit": limit, **more}
    return "[[vgpu]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


class VgpuTest(unittest.TestCase):
    def serve(self, *specs, options=("--default", "none"), tcp=False, devices=1, driver="emulator", **env):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "vgpus.toml")
        self.write(*specs)
        # Without pauses before kernels: a busy machine makes them longer.
        self.server = Server("--vgpus", self.file, *options, tcp=tcp, driver=driver,
                             env=environment(TESSERA_EMULATOR_DELAY_US="0", TESSERA_EMULATOR_DEVICES=str(devices), **env))
        self.addCleanup(self.server.stop)

    def write(self, *specs):
        with open(self.file + ".new", "w") as file:
            file.write("\n".join(specs))
        os.rename(self.file + ".new", self.file)

    def run_in(self, name, *words, **more):
        return subprocess.run([TESSERA, "run", "--server", self.server.url, *(["--vgpu", name] if name else []), "--", *words],
                              capture_output=True, text=True, timeout=60, env=environment(**more))

    def tenant(self, name, duration_us=1000, *more):
        """A program that wants the GPU always, and its worker; `more`: as occupy takes it."""
        before = self.server.workers()
        words = [TESSERA, "run", "--server", self.server.url, *(["--vgpu", name] if name else []), "--",
                 program("occupy"), MANY, str(duration_us), *map(str, more)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(process)
        self.addCleanup(self.end, process)
        self.assertNotEqual(process.stdout.readline(), "")
        worker, = set(self.server.workers()) - set(before)
        self.page = DevicePage(self.server)
        wait_for(lambda: self.page.busy_ns(worker) > 0, 30, "a kernel on the device")
        return process, worker

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def status(self):
        words = [TESSERA, "status", "--server", self.server.url, "-o", "json"]
        time.sleep(0.6)  # it is told twice a second
        return the_server(subprocess.run(words, capture_output=True, text=True, check=True, env=environment()).stdout)

    def shares(self, workers, seconds):
        """Of the device time that all of these got, in percent."""
        before = [self.page.busy_ns(worker) for worker in workers]
        time.sleep(seconds)
        got = [self.page.busy_ns(worker) - start for worker, start in zip(workers, before)]
        self.assertGreater(sum(got), 0)
        return [100 * part / sum(got) for part in got]

    def check_use(self, worker, least, most, seconds=2):
        """The part of the time that passes in which the device works for this worker; in one window of several, as below.

        What is billed may be far more than this on a busy machine, where a worker sees late that its work has ended. So a test of
        a limit takes a low `least`: that work goes on at all; and reads what was billed of the server.
        """
        seen = []
        for _ in range(4):
            begin, before = time.monotonic(), self.page.busy_ns(worker)
            time.sleep(seconds)
            seen.append((self.page.busy_ns(worker) - before) / 1e9 / (time.monotonic() - begin))
            if least <= seen[-1] <= most:
                return
        self.fail(f"wanted {least} to {most}, got {seen}\n{self.server.words()}")

    def check_billed(self, name, least, most):
        """The part of the last second that a vGPU was billed for; in one of several."""
        seen = []
        for _ in range(10):
            seen.append(next(one["got_1s"] for one in self.status()["vgpus"] if one["name"] == name))
            if least <= seen[-1] <= most:
                return
        self.fail(f"wanted {least} to {most} billed, got {seen}\n{self.server.words()}")

    def check_shares(self, workers, wanted, seconds=3, points=5):
        """In one window of several: on a busy machine somebody may get no processor for a while, and nothing can be had then."""
        seen = []
        for _ in range(4):
            shares = self.shares(workers, seconds)
            if all(abs(share - want) <= points for share, want in zip(shares, wanted)):
                return
            seen.append([round(share, 1) for share in shares])
        self.fail(f"wanted {wanted}, got {seen}\n{self.server.words()}")


class Shares(VgpuTest):
    def test_two_get_what_they_request(self):
        self.serve(vgpu("train", 0.7), vgpu("notebook", 0.3))
        _, train = self.tenant("train")
        _, notebook = self.tenant("notebook")
        self.check_shares([train, notebook], [70, 30])

    def test_status_tells_what_each_got(self):
        self.serve(vgpu("a", 0.7), vgpu("b", 0.3, 0.5))
        self.assertEqual([one["sessions"] for one in self.status()["vgpus"]], [0, 0])
        workers = [self.tenant(name)[1] for name in "ab"]
        self.check_shares(workers, [70, 30], seconds=2)
        told = self.status()
        self.assertEqual(told["devices"][0]["sharing"], "metered")
        a, b = told["vgpus"]
        self.assertEqual((a["name"], a["request"], b["limit"], b["sessions"]), ("a", 0.7, 0.5, 1))
        self.assertLess(abs(a["got_10s"] - b["got_10s"] * 7 / 3), 0.25)
        self.assertGreater(b["waited_ms"], 500)
        self.assertEqual([session["vgpu"] for session in told["session_list"]], ["a", "b"])
        text = subprocess.run([TESSERA, "top", "--server", self.server.url], capture_output=True, text=True, env=environment()).stdout
        self.assertIn("device 0 is metered, policy fair", text)

    def test_three_with_kernels_of_other_lengths(self):
        self.serve(vgpu("a", 0.6), vgpu("b", 0.3), vgpu("c", 0.1))
        workers = [self.tenant(name, duration)[1] for name, duration in (("a", 300), ("b", 5000), ("c", 1000))]
        self.check_shares(workers, [60, 30, 10])

    def test_one_alone_has_all_of_it(self):
        self.serve(vgpu("train", 0.5), vgpu("notebook", 0.5))
        _, worker = self.tenant("train")
        self.check_use(worker, 0.9, 1.1, seconds=1)

    def test_a_limit_holds_for_one_alone(self):
        for duration_us in 300, 5000:
            with self.subTest(duration_us=duration_us):
                self.serve(vgpu("small", 0.2, 0.3))
                _, worker = self.tenant("small", duration_us)
                time.sleep(1)
                self.check_use(worker, 0.02, 0.33)
                self.check_billed("small", 0.2, 0.33)

    def test_one_that_destroys_its_streams_is_billed(self):
        """For what it uses, no more and no less, so that it gets its limit. It is alone: how soon it comes back after each kernel, late on a
        busy machine, would decide what it gets beside another one."""
        self.serve(vgpu("small", 0.2, 0.3))
        _, worker = self.tenant("small", 5000, 0)
        time.sleep(1)
        self.check_use(worker, 0.2, 0.33)
        self.check_billed("small", 0.2, 0.33)

    def test_two_programs_in_one_share_it(self):
        self.serve(vgpu("pair", 0.5), vgpu("one", 0.5))
        workers = [self.tenant(name)[1] for name in ("pair", "pair", "one")]
        seen = []
        for _ in range(4):
            first, second, one = self.shares(workers, 3)
            seen.append((first, second, one))
            if abs(one - 50) <= 5 and abs(first - second) <= 15:
                return
        self.fail(seen)

    def test_who_names_none_gets_what_is_left(self):
        self.serve(vgpu("a", 0.6), options=())
        workers = [self.tenant(name)[1] for name in ("a", None)]
        self.check_shares(workers, [60, 40], seconds=2)


class Functions(VgpuTest):
    def check_beside_one_that_works(self, pause_us):
        """It works for 5 ms, and then waits for a host function: the other one has the rest, and each what it uses on its bill."""
        self.serve(vgpu("works", 0.5), vgpu("waits", 0.5))
        _, works = self.tenant("works")
        _, waits = self.tenant("waits", 5000, 1, pause_us)
        part = 5000 / (5000 + pause_us)
        time.sleep(1)
        self.check_use(waits, 0.2 * part, 0.2)
        self.check_billed("works", 0.55, 1.0)
        self.check_billed("waits", 0.2 * part, 0.3)

    def test_who_waits_for_its_own_program_is_not_billed(self):
        self.check_beside_one_that_works(40_000)

    def test_who_waits_for_long_wants_few_tokens(self):
        self.check_beside_one_that_works(300_000)

    def test_a_program_that_is_stopped_is_not_billed(self):
        self.serve(vgpu("works", 0.5), vgpu("waits", 0.5))
        self.tenant("works")
        process, waits = self.tenant("waits", 5000, 1, 40_000)
        process.send_signal(signal.SIGSTOP)
        self.check_billed("waits", 0, 0.01)
        process.send_signal(signal.SIGCONT)
        self.check_use(waits, 0.02, 0.2)

    def test_alone_with_a_limit_only_its_kernels_count(self):
        self.serve(vgpu("waits", 0.2, 0.3))
        _, waits = self.tenant("waits", 4000, 1, 16_000)
        self.check_use(waits, 0.08, 0.3)
        self.check_billed("waits", 0.08, 0.3)


class SeveralGpus(VgpuTest):
    """Two programs that both use two GPUs in lockstep: a step is a kernel on each, and the end of both."""

    def lockstep(self, name, first):
        process = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", name, "--", program("lockstep"), "1000", str(first)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(process)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "begins\n")
        return process

    @staticmethod
    def steps(process, seconds):
        """Done in so many seconds, and in what is missing until they are said: each 100 ms."""
        asked = begin = 0
        while begin - asked < 0.02:  # what was said before is there at once
            asked = time.monotonic()
            first = last = int(process.stdout.readline())
            begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            last = int(process.stdout.readline())
        return last - first

    def check_halves(self):
        """Of each GPU what was billed, in one second of several."""
        seen = []
        for _ in range(12):
            got = {one["name"]: one["got_1s"] for one in self.status()["vgpus"]}
            seen.append(got)
            if all(got["a" + gpu] + got["b" + gpu] > 0.5 and
                   0.44 <= got["a" + gpu] / (got["a" + gpu] + got["b" + gpu]) <= 0.56 for gpu in "01"):
                return
        self.fail(f"wanted halves, got {seen}\n{self.server.words()}")

    def test_two_on_both_have_half_of_each_and_go_on(self):
        specs = [vgpu(name + str(gpu), 0.5, gpu=gpu) for name in "ab" for gpu in (0, 1)]
        for first in 0, 1:
            with self.subTest(first=first), tempfile.TemporaryDirectory() as directory:
                trace = os.path.join(directory, "trace")
                self.serve(*specs, options=("--default", "none", "--record", trace), devices=2)
                a, b = self.lockstep("a0+a1", 0), self.lockstep("b0+b1", first)
                self.check_halves()
                self.assertGreater(self.steps(b, 2), 20)
                self.end(a)
                self.assertGreater(self.steps(b, 1), 20)
                self.end(b)
                self.server.process.terminate()  # its broker writes down what it has
                self.server.process.wait(20)
                # Each GPU's record is replayed by itself.
                for path in trace + ".0", trace + ".1":
                    with open(path) as file:
                        self.assertIn(" grant ", file.read())
                    subprocess.run([os.path.join(BUILD, "bin/tessera-replay"), path], check=True, stdout=subprocess.DEVNULL)


class Overrun(VgpuTest):
    def test_one_that_never_ends_is_ended_where_that_is_asked_for(self):
        self.serve(vgpu("a", 0.3, overrun="end"), vgpu("b", 0.3), vgpu("c", 0.3), options=("--default", "none", "--overrun-after", "1"))
        _, neighbour = self.tenant("c")
        endless = str(60_000_000)
        billed = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", "b", "--", program("occupy"), "1", endless],
                                  stdout=subprocess.DEVNULL, env=environment())
        self.addCleanup(self.end, billed)
        done = self.run_in("a", program("occupy"), "1", endless)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("overrun"), 1, done.stderr)
        self.assertIn("702", done.stderr)
        self.assertIsNone(billed.poll())
        wait_for(lambda: len(self.server.workers()) == 2, 10, "the end of its worker")
        self.check_use(neighbour, 0.2, 1.1, seconds=1)


class OtherSystems(VgpuTest):
    """What each of these is known for."""

    def test_gemini_its_file_loads_and_edits_apply(self):
        self.serve("2\na 0.7 1.0 0\nb 0.3 1.0 0\n")
        workers = [self.tenant(name)[1] for name in "ab"]
        self.check_shares(workers, [70, 30], seconds=2)
        self.write("2\na 0.3 1.0 0\nb 0.7 1.0 0\n")
        wait_for(lambda: "are in force" in self.server.words(), 10, "the new file")
        self.check_shares(workers, [30, 70], seconds=2)

    def test_st_vgpu_one_made_at_run_time_gets_its_share_within_a_window(self):
        self.serve(vgpu("a", 0.5))
        _, first = self.tenant("a")
        self.write(vgpu("a", 0.5), vgpu("b", 0.5))
        wait_for(lambda: "are in force" in self.server.words(), 10, "the new file")
        _, second = self.tenant("b")
        self.check_shares([first, second], [50, 50], seconds=2, points=7)

    def test_nvidia_vgpu_fixed_shares_leave_idle_slots_unused(self):
        self.serve(vgpu("a", 0.5), vgpu("b", 0.5), options=("--default", "none", "--policy", "fixed"))
        _, worker = self.tenant("a")
        self.check_use(worker, 0.4, 0.55)

    def test_pass_through_nobody_else_is_admitted_and_nothing_is_lost(self):
        self.serve(vgpu("all", 1))
        _, worker = self.tenant("all")
        self.write(vgpu("all", 1), vgpu("more", 0.1))
        wait_for(lambda: "stay as they are" in self.server.words(), 10, "a word about the file")
        self.check_use(worker, 0.9, 1.1, seconds=1)

    def test_kubegpu_remote_clients_never_exceed_their_shares(self):
        self.serve(vgpu("a", 0.2, 0.25), vgpu("b", 0.2, 0.25), tcp=True)
        workers = [self.tenant(name)[1] for name in "ab"]
        time.sleep(1)
        for worker in workers:
            self.check_use(worker, 0.02, 0.28)
        for name in "ab":
            self.check_billed(name, 0.17, 0.28)


class Changes(VgpuTest):
    def test_the_file_is_watched(self):
        self.serve(vgpu("a", 0.7), vgpu("b", 0.3))
        workers = [self.tenant(name)[1] for name in "ab"]
        self.check_shares(workers, [70, 30], seconds=2, points=7)
        self.write(vgpu("a", 0.2), vgpu("b", 0.8))
        wait_for(lambda: "are in force" in self.server.words(), 10, "the new file")
        self.check_shares(workers, [20, 80], seconds=2, points=7)
        # What cannot be changes nothing, and says why.
        self.write(vgpu("a", 0.7), vgpu("b", 0.8))
        wait_for(lambda: "stay as they are" in self.server.words(), 10, "a word about the file")
        self.check_shares(workers, [20, 80], seconds=2, points=7)

    def test_a_broker_that_is_killed_is_replaced(self):
        with tempfile.TemporaryDirectory() as directory:
            self.check_broker_is_replaced(os.path.join(directory, "trace"))

    def check_broker_is_replaced(self, trace):
        self.serve(vgpu("a", 0.7), vgpu("b", 0.3), options=("--default", "none", "--record", trace))
        programs = [self.tenant(name) for name in "ab"]
        workers = [worker for _, worker in programs]
        first = self.server.broker()
        wait_for(lambda: " gate " in Path(trace).read_text(), 20, "the record")  # it is written each second
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, first), 10, "another broker")
        self.check_shares(workers, [70, 30], seconds=2, points=7)
        self.assertEqual([process.poll() for process, _ in programs], [None, None])
        # The second one writes its own.
        wait_for(lambda: " gate " in Path(trace + "-2").read_text(), 20, "the second record")

    def test_without_a_word_of_the_broker_shares_are_slots(self):
        self.serve(vgpu("a", 0.7), vgpu("b", 0.3))
        workers = [self.tenant(name)[1] for name in "ab"]
        self.check_shares(workers, [70, 30], seconds=1, points=10)
        seen = []
        for _ in range(4):
            stopped = self.server.broker()
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(0.7)
            seen.append(self.shares(workers, 1)[0])  # tesserad ends it after 2 s
            if abs(seen[-1] - 70) <= 10:
                return
            wait_for(lambda: self.server.broker() not in (None, stopped), 10, "another broker")
        self.fail(seen)

    def test_the_share_of_one_that_dies_is_the_others(self):
        self.serve(vgpu("a", 0.7), vgpu("b", 0.3))
        (_, first), (_, second) = [self.tenant(name) for name in "ab"]
        time.sleep(1)
        os.kill(first, signal.SIGKILL)
        self.check_use(second, 0.8, 1.1, seconds=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
