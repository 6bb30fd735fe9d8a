#!/usr/bin/env python3
"""libnvidia-ml.so.1 against a server with emulated devices: what PyTorch, JAX, NCCL and nvidia-ml-py ask.

usage: nvml_test.py BUILD_DIRECTORY
"""

import ctypes
import os
import subprocess
import sys
import time
import unittest

from product import CLIENT, Server, environment, program

SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED, INSUFFICIENT, NOT_LOADED, NO_FUNCTION, LOST = 0, 1, 2, 3, 7, 9, 13, 15


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Nvml(unittest.TestCase):
    """The library is loaded into this process, which therefore has one server for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(env=environment(TESSERA_EMULATOR_DEVICES="2", TESSERA_EMULATOR_MEMORY_MIB="1024"))
        os.environ["TESSERA_SERVER"] = cls.server.url
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        cls.nvml = ctypes.CDLL(os.path.join(CLIENT, "libnvidia-ml.so.1"))
        cls.nvml.nvmlErrorString.restype = ctypes.c_char_p
        cls.cuda = ctypes.CDLL(os.path.join(CLIENT, "libcuda.so.1"))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.assertEqual(self.nvml.nvmlInit_v2(), SUCCESS)
        self.devices = []
        for index in range(2):
            device = ctypes.c_void_p()
            self.assertEqual(self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)), SUCCESS)
            self.devices.append(device)

    def tearDown(self):
        self.nvml.nvmlShutdown()

    def memory(self, device=0):
        memory = Memory()
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo(self.devices[device], ctypes.byref(memory)), SUCCESS)
        self.assertEqual(memory.total, memory.free + memory.used)
        return memory

    def processes(self, device=0, room=8):
        count = ctypes.c_uint(room)
        infos = (Process * max(room, 1))()
        result = self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.devices[device], ctypes.byref(count), infos if room else None)
        return result, [(info.pid, info.used) for info in infos[:min(count.value, room)]], count.value

    def start_context(self, ordinal):
        context = ctypes.c_void_p()
        self.assertEqual(self.cuda.cuInit(0), 0)
        self.assertEqual(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal), 0)
        self.assertEqual(self.cuda.cuCtxSetCurrent(context), 0)

    def test_what_a_device_is(self):
        count = ctypes.c_uint()
        self.assertEqual(self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), SUCCESS)
        self.assertEqual(count.value, 2)
        text = ctypes.create_string_buffer(96)
        self.assertEqual(self.nvml.nvmlDeviceGetName(self.devices[0], text, 96), SUCCESS)
        self.assertIn(b"emulated", text.value)
        self.assertEqual(self.nvml.nvmlDeviceGetUUID(self.devices[1], text, 96), SUCCESS)
        found = ctypes.c_void_p()
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByUUID(text, ctypes.byref(found)), SUCCESS)
        self.assertEqual(found.value, self.devices[1].value)
        self.assertEqual(self.nvml.nvmlDeviceGetName(self.devices[0], text, 3), INSUFFICIENT)
        version = ctypes.c_int()
        self.assertEqual(self.nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)), SUCCESS)
        self.assertEqual(version.value, 13000)
        self.assertEqual(self.nvml.nvmlSystemGetDriverVersion(text, 80), SUCCESS)
        self.assertRegex(text.value, rb"^\d+\.\d+\.\d+$")

    def test_asking_begins_no_session(self):
        log = self.server.words()
        self.memory()
        self.processes()
        self.assertEqual(self.server.words(), log)

    def test_memory_in_use_is_told_at_once(self):
        self.start_context(0)
        before, other = self.memory(), self.memory(1)
        self.assertEqual(before.total, 1024 << 20)
        address = ctypes.c_uint64()
        self.assertEqual(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(300 << 20)), 0)
        during = self.memory()
        # The session may hold memory it would reuse first.
        self.assertGreaterEqual(during.used - before.used, 280 << 20)
        self.assertEqual(self.memory(1).used, other.used)
        result, processes, count = self.processes()
        self.assertEqual((result, count), (SUCCESS, 1))
        self.assertEqual(processes, [(os.getpid(), during.used)])
        self.assertEqual(self.processes(room=0), (INSUFFICIENT, [], 1))
        self.assertEqual(self.processes(device=1), (SUCCESS, [], 0))
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.assertEqual(self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), 0)
        self.assertLess(abs(free.value - during.free), 64 << 20)
        self.assertEqual(self.cuda.cuMemFree_v2(address), 0)

    def test_the_second_form_of_memory(self):
        memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.devices[1], ctypes.byref(memory)), SUCCESS)
        self.assertEqual((memory.total, memory.free, memory.used), (1024 << 20, 1024 << 20, 0))
        memory.version = 1
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.devices[1], ctypes.byref(memory)), NO_FUNCTION)

    @unittest.skipUnless(os.path.exists(program("spin")), "the CUDA test programs were not built: nvcc is missing")
    def test_load(self):
        def load():
            rates = Utilization()
            result = self.nvml.nvmlDeviceGetUtilizationRates(self.devices[0], ctypes.byref(rates))
            return rates.gpu if result == SUCCESS else None
        load()  # a load is known from the second look on
        time.sleep(0.25)
        self.assertEqual(load(), 0)
        spin = subprocess.Popen([program("spin")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=self.server.url))
        spin.stdout.readline()
        time.sleep(0.25)
        self.assertEqual(load(), 100)
        spin.kill()
        spin.communicate()

    def test_what_an_emulated_device_does_not_have(self):
        number = ctypes.c_uint()
        for function in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetFanSpeed", "nvmlDeviceGetPerformanceState"):
            self.assertEqual(getattr(self.nvml, function)(self.devices[0], ctypes.byref(number)), NOT_SUPPORTED, function)
        self.assertEqual(self.nvml.nvmlDeviceGetTemperature(self.devices[0], 0, ctypes.byref(number)), NOT_SUPPORTED)
        self.assertEqual(self.nvml.nvmlDeviceGetTemperature(self.devices[0], 7, ctypes.byref(number)), INVALID)
        self.assertEqual(self.nvml.nvmlDeviceGetClockInfo(self.devices[0], 9, ctypes.byref(number)), INVALID)

    def test_what_an_emulated_device_is(self):
        number = ctypes.c_uint()
        for function, value in (("nvmlDeviceGetMinorNumber", 1), ("nvmlDeviceGetComputeMode", 0), ("nvmlDeviceGetDisplayActive", 0),
                                ("nvmlDeviceGetNumFans", 0), ("nvmlDeviceGetMaxMigDeviceCount", 0), ("nvmlDeviceIsMigDeviceHandle", 0)):
            self.assertEqual(getattr(self.nvml, function)(self.devices[1], ctypes.byref(number)), SUCCESS, function)
            self.assertEqual(number.value, value, function)
        multiprocessors, major = ctypes.c_int(), ctypes.c_int()
        self.assertEqual(self.cuda.cuInit(0), 0)
        self.assertEqual(self.cuda.cuDeviceGetAttribute(ctypes.byref(multiprocessors), 16, 0), 0)
        self.assertEqual(self.cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0), 0)
        self.assertEqual(self.nvml.nvmlDeviceGetNumGpuCores(self.devices[0], ctypes.byref(number)), SUCCESS)
        self.assertEqual(number.value, 128 * multiprocessors.value)
        self.assertEqual(self.nvml.nvmlDeviceGetArchitecture(self.devices[0], ctypes.byref(number)), SUCCESS)
        self.assertEqual(number.value, major.value)  # as it happens, from 9 on

    def test_wrong_arguments(self):
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo(self.devices[0], None), INVALID)
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo(ctypes.c_void_p(77), ctypes.byref(Memory())), INVALID)
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(ctypes.c_void_p())), INVALID)

    def test_not_initialised(self):
        self.nvml.nvmlShutdown()
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo(self.devices[0], ctypes.byref(Memory())), UNINITIALIZED)
        self.assertEqual(self.nvml.nvmlShutdown(), UNINITIALIZED)
        self.assertEqual(self.nvml.nvmlInit_v2(), SUCCESS)

    def test_a_server_that_is_gone(self):
        code = f"""import ctypes, sys
nvml = ctypes.CDLL('{CLIENT}/libnvidia-ml.so.1')
device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
print(nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), flush=True)
sys.stdin.read()
print(nvml.nvmlDeviceGetMemoryInfo(device, memory), nvml.nvmlShutdown(), nvml.nvmlInit_v2())"""
        server = Server()
        asker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, env=environment(TESSERA_SERVER=server.url))
        self.assertEqual(asker.stdout.readline(), "0 0\n")
        self.assertEqual(server.stop(), 0)
        out, err = asker.communicate(timeout=30)
        self.assertEqual(out, f"{LOST} {SUCCESS} {NOT_LOADED}\n")
        self.assertRegex(err, r"^tessera\[\d+\]: error: there is no socket [^\n]*: start the server[^\n]*\n$")


class FromTheServersLibrary(unittest.TestCase):
    """A server whose machine has an NVML of its own: fake_nvml.cc."""

    ASK = f"""import ctypes, os, sys
nvml, cuda = ctypes.CDLL('{CLIENT}/libnvidia-ml.so.1'), ctypes.CDLL('{CLIENT}/libcuda.so.1')
assert cuda.cuInit(0) == 0
def ask(function, *arguments, size=1):
    out = (ctypes.c_uint * size)()
    result = getattr(nvml, function)(*arguments, out)
    return (result, *out)
text = ctypes.create_string_buffer(80)
device, memory, count = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)(), ctypes.c_uint(4)
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
print(nvml.nvmlSystemGetDriverVersion(text, 80), text.value.decode())
print(nvml.nvmlDeviceGetMemoryInfo(device, memory), *[value >> 20 for value in memory])
print(*ask('nvmlDeviceGetUtilizationRates', device, size=2))
print(*ask('nvmlDeviceGetPowerUsage', device), *ask('nvmlDeviceGetTemperature', device, 0), *ask('nvmlDeviceGetClockInfo', device, 2))
print(ask('nvmlDeviceGetFanSpeed', device)[0])
temperature = (ctypes.c_uint * 3)(12 | 1 << 24, 0, 0)
print(nvml.nvmlDeviceGetTemperatureV(device, temperature), temperature[2])
processes = (ctypes.c_uint * 24)()
print(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes), count.value, processes[0] == os.getpid(), processes[2] >> 20)
"""

    def test_readings_come_through(self):
        build = os.path.dirname(os.path.dirname(CLIENT))
        server = Server(driver=os.path.join(build, "lib/libtessera-emulator.so"),
                        env=environment(LD_LIBRARY_PATH=os.path.join(build, "tests/system/fake_nvml")))
        done = subprocess.run([sys.executable, "-c", self.ASK], capture_output=True, text=True, timeout=60,
                              env=environment(TESSERA_SERVER=server.url))
        # Used memory of the first form counts what is reserved.
        self.assertEqual(done.stdout.splitlines(), ["0 580.1.2", "0 1000 590 410", "0 37 12", "0 123456 0 45 0 1002", "3", "0 45", "0 1 True 7"],
                         done.stderr)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
