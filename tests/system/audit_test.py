#!/usr/bin/env python3
"""The audit of what workers report: who uses a GPU without reporting it, by an NVML that says so of everybody (fake_nvml.cc) and by
the emulated device's own readings.

usage: audit_test.py BUILD_DIRECTORY
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from product import BUILD, CLIENT, HAS_CONTROL_API, TESSERA, DevicePage, Server, end_with_test, environment, free_port, program, the_server, wait_for

# Has a context, and asks now and then whether its device is still there: ends with the error that it gets.
IDLE = f"""import ctypes, sys, time
cuda, context = ctypes.CDLL('{CLIENT}/libcuda.so.1'), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
print('begins', flush=True)
while cuda.cuCtxSynchronize() == 0:
    time.sleep(0.5)
print(cuda.cuCtxSynchronize(), flush=True)
"""
FOUND = "without reporting it"
FOUND_MEMORY = "uses more memory of GPU 0 than it reports"
# Some seconds for a finding; a busy machine may need some of them several times.
FOUND_S = 120
# The first figure of a session is not compared, and five are enough.
FIGURES_MAX = 6
HELD_MIB, HELD_ALL_MIB = 50, 300  # the latter less than the former with 256 MiB and a context of 7 MiB


class Audit(unittest.TestCase):
    def serve(self, *options, fake=True, memory="", log="info", **changes):
        """With vGPUs a and b. `fake`: its NVML says of each worker that it uses 61 % of the GPU. `memory`: the limit of both."""
        file = tempfile.NamedTemporaryFile("w")
        self.addCleanup(file.close)
        limit = f'memory = "{memory}"\n' if memory else ""
        file.write(f'[[vgpu]]\nname = "a"\nrequest = 0.5\n{limit}[[vgpu]]\nname = "b"\nrequest = 0.3\n{limit}')
        file.flush()
        if fake:
            changes["LD_LIBRARY_PATH"] = os.path.join(BUILD, "tests/system/fake_nvml")
        self.server = Server("--vgpus", file.name, "--default", "none", *options, log=log, env=environment(TESSERA_EMULATOR_DELAY_US="0", **changes),
                             driver=os.path.join(BUILD, "lib/libtessera-emulator.so") if fake else "emulator")
        self.addCleanup(self.server.stop)

    def start(self, vgpu, *words, says="begins"):
        process = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", vgpu, "--", *words], env=environment(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end_with_test(process)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), says + "\n")
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def occupy(self, vgpu, duration_us=1000):
        return self.start(vgpu, program("occupy"), "1000000", str(duration_us))

    def status(self):
        words = [TESSERA, "status", "--server", self.server.url]
        told = [subprocess.run([*words, *more], capture_output=True, text=True, check=True, env=environment()).stdout
                for more in ((), ("-o", "json"))]
        return told[0], the_server(told[1])

    def test_one_that_is_found_is_in_the_log_once_and_goes_on(self):
        port = free_port()
        self.serve(*(("--metrics", f"127.0.0.1:{port}") if HAS_CONTROL_API else ()), FAKE_NVML_PROCESS_MIB="3000")
        busy, idle = self.occupy("a"), self.start("b", sys.executable, "-c", IDLE)
        wait_for(lambda: FOUND in self.server.words(), FOUND_S, "a finding")
        self.assertIn("61 %", self.server.words())
        time.sleep(4)
        self.assertEqual(self.server.words().count(FOUND), 1, self.server.words())
        self.assertIn(f"of pid {idle.pid}", self.server.words())
        self.assertEqual([busy.poll(), idle.poll()], [None, None])
        text, told = self.status()
        self.assertEqual((told["audit"], told["devices"][0]["unreported_sessions"]), ("log", 1))
        self.assertIn("1 sessions used it without", text)
        # By this NVML the workers of both hold 3,000 MiB, and more than 1 GiB of that is in no ledger.
        self.assertEqual(self.server.words().count(FOUND_MEMORY), 2, self.server.words())
        self.assertEqual(told["devices"][0]["unreported_memory_sessions"], 2)
        self.assertIn("2 sessions used more of its memory than they report", text)
        if HAS_CONTROL_API:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as metrics:
                metrics_text = metrics.read().decode()
            counted = re.findall(r'^tessera_vgpu_audit_findings_total\{vgpu="(.)".* (.*)$', metrics_text, re.M)
            memory = re.findall(r'^tessera_vgpu_audit_memory_findings_total\{vgpu="(.)".* (.*)$', metrics_text, re.M)
            self.assertEqual(dict(counted), {"a": "0", "b": "1"})
            self.assertEqual(dict(memory), {"a": "1", "b": "1"})

    def test_one_that_is_found_is_ended_where_that_is_asked_for(self):
        self.serve("--audit", "end")
        busy, idle = self.occupy("a"), self.start("b", sys.executable, "-c", IDLE)
        out, errors = idle.communicate(timeout=FOUND_S)
        self.assertEqual(out, "702\n", errors)  # CUDA_ERROR_LAUNCH_TIMEOUT
        self.assertEqual(errors.count("--audit end"), 1, errors)
        wait_for(lambda: len(self.server.workers()) == 1, 20, "the end of its worker")
        self.assertNotIn("is killed", self.server.words())
        self.assertIsNone(busy.poll())

    def test_it_is_found_within_some_seconds_of_its_begin(self):
        self.serve("--audit", "end", log="debug", FAKE_NVML_SM_PERCENT="30")
        busy, idle = self.occupy("a"), self.start("b", sys.executable, "-c", IDLE)
        out, errors = idle.communicate(timeout=FOUND_S)
        self.assertEqual(out, "702\n", errors)
        words = self.server.words()
        self.assertIn("30 % of the time by NVML, and 0 % by its worker", words)
        self.assertIsNone(busy.poll())
        # Counted by figures, of one second each: those of the session until it is found. A late one makes the audit begin anew.
        session = re.search(r"session (\d+) of pid \d+ \([^)]*\) uses GPU 0 without", words).group(1)
        until = words[:words.index(FOUND)]
        figures = until[until.rfind("audit of time: begins anew") + 1:].count(f"audit of time: session {session},")
        self.assertLessEqual(figures, FIGURES_MAX, words)

    def test_who_holds_more_memory_than_it_reports_is_ended_where_that_is_asked_for(self):
        self.serve("--audit", "end", memory="200MiB", FAKE_NVML_SM_PERCENT="0", FAKE_NVML_PROCESS_MIB=str(HELD_ALL_MIB))
        holder = self.start("a", program("memory_limit"), "hold", str(HELD_MIB), says="held")
        idle = self.start("b", sys.executable, "-c", IDLE)
        out, errors = idle.communicate(timeout=FOUND_S)
        self.assertEqual(out, "702\n", errors)
        self.assertEqual(errors.count("more of a GPU's memory than it reported"), 1, errors)
        wait_for(lambda: len(self.server.workers()) == 1, 20, "the end of its worker")
        words = self.server.words()
        self.assertEqual(words.count(FOUND_MEMORY), 1, words)
        self.assertIn(f"of pid {idle.pid}", words)
        self.assertIsNone(holder.poll())
        self.assertNotIn("is killed", words)

    def test_without_a_limit_of_memory_nobody_is_ended_for_it(self):
        self.serve("--audit", "end", FAKE_NVML_SM_PERCENT="0", FAKE_NVML_PROCESS_MIB="3000")
        tenants = [self.occupy("a"), self.start("b", sys.executable, "-c", IDLE)]
        wait_for(lambda: self.server.words().count(FOUND_MEMORY) == 2, FOUND_S, "two findings")
        time.sleep(3)
        self.assertEqual([tenant.poll() for tenant in tenants], [None, None])

    def test_who_reports_is_not_found(self):
        self.serve("--audit", "end", fake=False)
        tenants = [self.occupy("a", 5000), self.occupy("b", 300)]
        page = DevicePage(self.server)
        wait_for(lambda: all(page.busy_ns(worker) > 3e9 for worker in self.server.workers()), FOUND_S, "some seconds of work")
        time.sleep(10)
        self.assertEqual([tenant.poll() for tenant in tenants], [None, None], self.server.words())
        self.assertNotIn(FOUND, self.server.words())
        self.assertNotIn("than it reports", self.server.words())
        _, told = self.status()
        self.assertEqual((told["audit"], told["devices"][0]["unreported_sessions"]), ("end", 0))

    def test_without_figures_of_processes_it_says_so_once(self):
        self.serve(FAKE_NVML_KNOWS_NO_PROCESSES="1")
        self.occupy("a"), self.start("b", sys.executable, "-c", IDLE)
        wait_for(lambda: "there is no audit" in self.server.words(), FOUND_S, "a word about it")
        time.sleep(4)
        self.assertEqual(self.server.words().count("there is no audit"), 1)
        self.assertNotIn(FOUND, self.server.words())
        self.assertEqual(self.status()[1]["audit"], "blind")

    def test_nobody_looks_where_it_is_off(self):
        self.serve("--audit", "off")
        self.occupy("a"), self.start("b", sys.executable, "-c", IDLE)
        time.sleep(3)
        self.assertFalse([words for words in self.server.children_by_words().values() if "--monitor-fd" in words])
        self.assertEqual(self.status()[1]["audit"], "off")


if __name__ == "__main__":
    unittest.main(verbosity=2)
