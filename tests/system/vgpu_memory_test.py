#!/usr/bin/env python3
"""Memory limits of vGPUs, on every path on which a program gets memory, and what programs see of them.

usage: vgpu_memory_test.py BUILD_DIRECTORY
"""

import os
import signal
import subprocess
import sys
import unittest

from product import BUILD, TESSERA, end_with_test, environment, program, wait_for
from vgpu_test import VgpuTest, vgpu

# Total and used memory of the first device, and how many processes use it.
ASK_NVML = """
import ctypes
nvml, device, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint(64)
memory, processes = (ctypes.c_ulonglong * 3)(), (ctypes.c_ulonglong * 256)()
for call in (nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), nvml.nvmlDeviceGetMemoryInfo(device, memory),
             nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)):
    assert call == 0, call
print(memory[0], memory[2], count.value)
"""
# Bus id and UUID of the first device.
WHICH_CARD = """
import ctypes
cuda, bus, uuid = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(32), ctypes.create_string_buffer(16)
for call in (cuda.cuInit(0), cuda.cuDeviceGetPCIBusId(bus, 32, 0), cuda.cuDeviceGetUuid_v2(uuid, 0)):
    assert call == 0, call
print(bus.value, uuid.raw.hex())
"""
# What a program without a context is told, whether it can make one, and then for each line whether it can have one and so many MiB.
MAKES_CONTEXTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "makes_contexts.py")
# How many contexts it gets, and the free MiB then and after one of them has gone.
MANY_CONTEXTS = """
import ctypes
cuda, contexts, free, total = ctypes.CDLL("libcuda.so.1"), [], ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0
while (result := cuda.cuCtxCreate_v2(ctypes.byref(context := ctypes.c_void_p()), 0, 0)) == 0:
    contexts.append(context)
said = [result, len(contexts)]
for _ in range(2):
    assert cuda.cuCtxSetCurrent(contexts[0]) == 0 and cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    said.append(free.value >> 20)
    assert cuda.cuCtxDestroy_v2(contexts.pop()) == 0
print(said)
"""
# What it is told of contexts that the driver refuses, and of what comes then: a context, and all memory of the limit.
REFUSED_CONTEXTS = """
import ctypes
cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_ulonglong()
retain = lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert cuda.cuInit(0) == 0
told = {cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) for _ in range(20)}
assert cuda.cuDevicePrimaryCtxSetFlags_v2(0, 16) == 0  # CU_CTX_LMEM_RESIZE_TO_MAX
told |= {retain() for _ in range(20)}
assert cuda.cuDevicePrimaryCtxSetFlags_v2(0, 0) == 0
print(told, retain(), cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), 384 << 20))
"""
REFUSING_DRIVER = os.path.join(BUILD, "tests/system/librefusing-driver.so")
MIB = 1 << 20
LIMIT = 64 * MIB


class Memory(VgpuTest):
    def limited(self, *words, name="small", check=True):
        return subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", name, "--", program("memory_limit"), *words],
                              capture_output=True, text=True, timeout=120, env=environment(), check=check)

    def holder(self, mebibytes, name="small", shares=False, way="hold"):
        """With `shares` the handle of what it holds."""
        words = [TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", name, "--", program("memory_limit"),
                 "share" if shares else way, str(mebibytes)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(process)
        self.addCleanup(self.end, process)
        said = process.stdout.readline().strip()
        self.assertTrue(said, self.server.words())
        return said if shares else process

    def has(self, mebibytes, name="small"):
        return self.limited("try", str(mebibytes), name=name).stdout == "yes\n"

    def wait_for_told(self, name="small", **wanted):
        """Until `tessera status` says so of a vGPU; the broker tells twice a second."""
        def says():
            vgpu, = [one for one in self.status().get("vgpus", []) if one["name"] == name] or [{}]
            if not all(vgpu.get(f"memory_{field}_bytes") == value for field, value in wanted.items()):
                return False
            return vgpu["memory_held_by_kind"] if sum(vgpu["memory_held_by_kind"].values()) == vgpu["memory_held_bytes"] else False
        wait_for(says, 10, f"{wanted} of {name}")
        return says()

    def test_every_path_ends_at_the_limit(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT), vgpu("large", 0.4, memory="1 GiB"))
        ran = self.limited(check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout + self.server.words())
        held = {path: int(bytes_) for path, bytes_, _, _ in map(str.split, ran.stdout.splitlines())}
        self.assertEqual(len(held), 17)
        for path, bytes_ in held.items():
            # Small blocks share pieces of 2 MiB.
            self.assertLessEqual(bytes_, LIMIT, path)
            self.assertGreaterEqual(bytes_, LIMIT, path)
        # Each kind went up and came down again on its way.
        self.assertEqual(set(self.wait_for_told(held=0).values()), {0})

    def test_what_is_held_is_told_by_kind(self):
        self.serve(vgpu("small", 0.3, memory=LIMIT), vgpu("other", 0.3, memory=40 * MIB))
        handle = self.holder(40, shares=True)
        self.assertEqual(self.limited("open", handle, name="other").stdout, "yes\n")
        kinds = self.wait_for_told(held=40 * MIB)
        self.assertEqual({kind: bytes_ for kind, bytes_ in kinds.items() if bytes_}, {"allocations": 40 * MIB})

    def test_local_memory_of_kernels_is_told_and_back_with_its_program(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        holder = self.holder(40, way="local")
        kinds = self.wait_for_told(held=40 * MIB)
        self.assertEqual({kind: bytes_ for kind, bytes_ in kinds.items() if bytes_}, {"kernels": 40 * MIB})
        self.assertFalse(self.has(25))
        refused = self.limited("local", "25", check=False)
        self.assertRegex(refused.stderr, r"Launch\(.*: 2\n")  # OUT_OF_MEMORY
        self.end(holder)
        wait_for(lambda: self.has(64), 10, "what the killed one held")

    def test_st_vgpu_two_clients_share_quota_and_limit(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        self.holder(40)
        self.assertFalse(self.has(25))
        self.assertTrue(self.has(24))
        self.holder(24)
        self.assertFalse(self.has(2))
        self.wait_for_told(held=LIMIT)

    def test_what_is_opened_counts_for_both(self):
        self.serve(vgpu("small", 0.3, memory=LIMIT), vgpu("other", 0.3, memory=40 * MIB), vgpu("less", 0.2, memory=38 * MIB))
        handle = self.holder(40, shares=True)
        self.assertEqual(self.limited("open", handle, name="other").stdout, "yes\n")
        self.assertEqual(self.limited("open", handle, name="less").stdout, "no\n")
        self.assertFalse(self.has(25))

    def test_orionx_memory_is_back_after_exit_and_crash(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        crashes, ends = self.holder(24), self.holder(40)
        self.end(crashes)
        wait_for(lambda: self.has(24), 10, "what the killed one held")
        ends.communicate("\n")
        wait_for(lambda: self.has(64), 10, "all of it")

    def test_programs_one_after_the_other_have_all_of_it(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        self.assertEqual([self.has(64) for _ in range(20)], [True] * 20)

    def test_gemini_its_file_limits_memory_and_edits_apply(self):
        self.serve(f"2\nsmall 0.5 1.0 {LIMIT}\nfree 0.3 1.0 0\n")
        self.assertFalse(self.has(65))
        self.assertTrue(self.has(65, name="free"))
        self.write(f"2\nsmall 0.5 1.0 {2 * LIMIT}\nfree 0.3 1.0 0\n")
        self.wait_for_told(limit=2 * LIMIT)
        self.assertTrue(self.has(128))
        self.assertFalse(self.has(129))

    def test_vcuda_an_unmodified_binary_sees_its_memory(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        self.assertIn(f" of {LIMIT}\n", self.limited("blocks").stdout)

    def test_cgpu_one_library_serves_clients_of_cuda_11_to_13(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        for words in (["old_versions"], ["memory_limit", "blocks"]):  # by entry points of CUDA 11 and 12; of today
            ran = self.run_in("small", program(words[0]), *words[1:])
            self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_vgpus_of_one_card_are_one_device_to_nccl(self):
        """It refuses two ranks on one GPU, and knows a GPU by these."""
        self.serve(vgpu("small", 0.3, memory=LIMIT), vgpu("other", 0.3))
        told = [self.run_in(name, sys.executable, "-c", WHICH_CARD) for name in ("small", "other")]
        self.assertEqual(told[0].stdout, told[1].stdout, told[0].stderr)
        self.assertRegex(told[0].stdout, r"^b'[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:00\.0' [0-9a-f]{32}\n$")

    def test_nvml_tells_of_the_vgpu(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT), vgpu("large", 0.4, memory="1GiB"))
        self.holder(40)
        self.holder(100, name="large")
        self.wait_for_told(held=40 * MIB)
        ran = subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "small", "--", sys.executable, "-c", ASK_NVML],
                             capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual((ran.stdout, ran.stderr), (f"{LIMIT} {40 * MIB} 1\n", ""), self.server.words())

    def test_who_names_no_vgpu_has_no_limit(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT), options=())
        ran = self.run_in(None, program("memory_limit"), "try", "100")
        self.assertEqual(ran.stdout, "yes\n")
        self.wait_for_told(limit=LIMIT)

    def test_a_limit_that_changes(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        self.holder(40)
        # Below what is held: nothing is taken away, and nothing more is given.
        self.write(vgpu("small", 0.5, memory=20 * MIB))
        self.wait_for_told(limit=20 * MIB, held=40 * MIB)
        self.assertFalse(self.has(2))
        self.write(vgpu("small", 0.5, memory=100 * MIB))
        self.wait_for_told(limit=100 * MIB)
        self.assertFalse(self.has(61))
        self.assertTrue(self.has(60))

    def test_what_does_not_fit_is_refused(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        self.write(vgpu("small", 0.5, memory="512 GiB"))
        wait_for(lambda: "too much: the GPU has" in self.server.words(), 10, "the refusal")
        self.wait_for_told(limit=LIMIT)

    def test_what_programs_without_a_vgpu_hold_is_taken(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT), options=("--gpu-memory", "1GiB"))
        process = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.server.url, "--", program("memory_limit"), "hold", "600"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        end_with_test(process)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "held\n")
        self.write(vgpu("small", 0.5, memory="512MiB"))
        wait_for(lambda: "memory 512 MiB is 88 MiB too much: the GPU has 424 MiB for vGPUs" in self.server.words(), 10, "the refusal")
        self.write(vgpu("small", 0.5, memory="424MiB"))
        self.wait_for_told(limit=424 * MIB)
        # What is there already stays, whatever others hold by now.
        self.write(vgpu("small", 0.4, memory="424MiB"))
        wait_for(lambda: self.server.words().count("are in force") >= 2, 10, "the file")

    def test_contexts_take_memory_too(self):
        """Each vGPU has room for one beside its limit, and so has a worker that waits; further ones are of the limit."""
        self.serve(vgpu("small", 0.3, memory="384MiB"), vgpu("other", 0.3, memory="384MiB"), options=("--warm-workers", "1"),
                   TESSERA_EMULATOR_MEMORY_MIB="1024", TESSERA_EMULATOR_CONTEXT_MIB="64")
        self.assertEqual(self.status()["devices"][0]["context_bytes"], 64 * MIB)
        told = subprocess.run([TESSERA, "status", "--server", self.server.url], capture_output=True, text=True, check=True, env=environment()).stdout
        self.assertIn(", 64 MiB for each program's context", told)
        self.write(vgpu("small", 0.3, memory="384MiB"), vgpu("other", 0.3, memory="384MiB"), vgpu("third", 0.3, memory="1MiB"))
        wait_for(lambda: "vGPU 'third': memory 1 MiB is 1 MiB too much: the GPU has 960 MiB for vGPUs, and 0 bytes are left beside its context of "
                 "64 MiB" in self.server.words(), 10, "the refusal")
        self.assertTrue(self.has(384))
        self.holder(300)
        self.assertFalse(self.has(21))
        self.assertTrue(self.has(20))
        # In a full one there is no context, as on a card that is full.
        self.holder(20)
        full = self.limited("try", "1", check=False)
        self.assertRegex(full.stderr, r"cuDevicePrimaryCtxRetain\(.*\): 2\n")  # OUT_OF_MEMORY
        self.assertTrue(self.has(384, name="other"))

    def test_further_contexts_of_a_program_are_of_the_limit(self):
        self.serve(vgpu("small", 0.3, memory="384MiB"), options=("--warm-workers", "1"),
                   TESSERA_EMULATOR_MEMORY_MIB="1024", TESSERA_EMULATOR_CONTEXT_MIB="64")
        for _ in range(2):  # they go with their program
            done = subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "small", "--", sys.executable, "-c",
                                   MANY_CONTEXTS], capture_output=True, text=True, timeout=60, env=environment())
            self.assertEqual((done.stdout, done.returncode), ("[2, 7, 0, 64]\n", 0), done.stderr)

    def test_a_context_that_the_driver_refuses_is_not_of_the_limit(self):
        self.serve(vgpu("small", 0.3, memory="384MiB"), options=("--warm-workers", "1"), driver=REFUSING_DRIVER,
                   TESSERA_EMULATOR_MEMORY_MIB="1024", TESSERA_EMULATOR_CONTEXT_MIB="64")
        done = subprocess.run([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "small", "--", sys.executable, "-c",
                               REFUSED_CONTEXTS], capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual((done.stdout, done.returncode), ("{801} 0 0 0\n", 0), done.stderr + self.server.words())

    def test_a_program_in_a_full_vgpu_begins_without_a_context(self):
        """And makes one when there is room: beside the limit, or of it."""
        self.serve(vgpu("small", 0.3, memory="384MiB"), options=("--warm-workers", "1"),
                   TESSERA_EMULATOR_MEMORY_MIB="1024", TESSERA_EMULATOR_CONTEXT_MIB="64")
        first = self.holder(300)
        second = self.holder(20)  # with its context, of the limit
        def begin():
            program = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.server.url, "--vgpu", "small", "--", sys.executable,
                                        MAKES_CONTEXTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
            end_with_test(program)
            self.addCleanup(self.end, program)
            # cuInit, cuDeviceGetName, cuDeviceTotalMem; cuCtxCreate, cuDevicePrimaryCtxRetain.
            self.assertEqual(program.stdout.readline(), "[0, 0, 0] 384 [2, 2]\n", self.server.words())
            return program
        def tries(program, mebibytes):
            program.stdin.write(f"{mebibytes}\n")
            program.stdin.flush()
            return program.stdout.readline()
        third, fourth = begin(), begin()
        self.assertEqual(tries(third, 1), "[2]\n")
        self.end(second)
        self.wait_for_told(held=300 * MIB)
        self.assertEqual(tries(third, 21), "[0, 2]\n")
        self.assertEqual(tries(third, 20), "[0, 0]\n")
        self.assertEqual(self.wait_for_told(held=384 * MIB)["contexts"], 64 * MIB)
        self.assertEqual(tries(fourth, 1), "[2]\n")
        # The room beside the limit, which the first one had.
        self.end(first)
        self.wait_for_told(held=84 * MIB)
        self.assertEqual(tries(fourth, 300), "[0, 0]\n")
        self.assertEqual(self.wait_for_told(held=384 * MIB)["contexts"], 64 * MIB)

    def test_a_broker_that_starts_anew_finds_what_is_held(self):
        self.serve(vgpu("small", 0.5, memory=LIMIT))
        self.holder(40)
        broker = self.server.broker()
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.server.broker() not in (None, broker), 10, "another broker")
        self.assertFalse(self.has(25))
        self.assertTrue(self.has(24))


if __name__ == "__main__":
    unittest.main()
