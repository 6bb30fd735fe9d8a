#!/usr/bin/env python3
"""Several servers in one process: the joined list of devices, everything between the devices of two servers, a server that is
lost, and what is said about lists that cannot be used.

usage: several_servers_test.py BUILD_DIRECTORY
"""

import json
import os
import subprocess
import sys
import threading
import unittest

from product import CLIENT, TESSERA, Server, environment, program

built = unittest.skipUnless(os.path.exists(program("two_servers")), "the CUDA test programs were not built: nvcc is missing")

# Prints for each device: its PCI bus id, UUID and name, as CUDA and as NVML see it.
LIST = """
import ctypes
cuda, nvml = ctypes.CDLL('libcuda.so.1'), ctypes.CDLL('libnvidia-ml.so.1')
count = ctypes.c_int(-1)
print(cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
text, uuid = ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
for device in range(count.value):
    assert cuda.cuDeviceGetPCIBusId(text, 64, device) == 0
    assert cuda.cuDeviceGetUuid_v2(uuid, device) == 0
    print('cuda', text.value.decode(), uuid.raw.hex())
assert nvml.nvmlInit_v2() == 0
seen = ctypes.c_uint()
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(seen)) == 0
for index in range(seen.value):
    device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetUUID(device, text, 64) == 0
    name = text.value.decode()
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    back = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(back)) == 0 and back.value == device.value
    print('nvml', name[4:].replace('-', ''), memory[0] >> 20)
"""

# One device of each of two servers: the second one's worker is killed while a stream of the first waits for its event.
LOSE = """
import ctypes, os, signal, sys, threading
cuda = ctypes.CDLL('libcuda.so.1')
def check(result): assert result == 0, result
check(cuda.cuInit(0))
contexts, streams, memory = [ctypes.c_void_p() for _ in 'ab'], [ctypes.c_void_p() for _ in 'ab'], [ctypes.c_uint64() for _ in 'ab']
for device in range(2):
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(contexts[device]), device))
    check(cuda.cuCtxSetCurrent(contexts[device]))
    check(cuda.cuStreamCreate(ctypes.byref(streams[device]), 1))
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory[device]), ctypes.c_size_t(4096)))
gate, event = threading.Event(), ctypes.c_void_p()
wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait())
check(cuda.cuEventCreate(ctypes.byref(event), 2))
check(cuda.cuLaunchHostFunc(streams[1], wait, None))
check(cuda.cuEventRecord(event, streams[1]))
check(cuda.cuCtxSetCurrent(contexts[0]))
check(cuda.cuStreamWaitEvent(streams[0], event, 0))
check(cuda.cuMemcpyPeerAsync(memory[0], contexts[0], memory[1], contexts[1], ctypes.c_size_t(4096), streams[0]))
assert cuda.cuStreamQuery(streams[0]) == 600
print('ready', flush=True)
sys.stdin.readline()
# The stream that waited goes on, and its thread hears that it waited in vain.
print('first', cuda.cuStreamSynchronize(streams[0]))
check(cuda.cuStreamSynchronize(streams[0]))
check(cuda.cuMemsetD8_v2(memory[0], 7, ctypes.c_size_t(4096)))
back = ctypes.create_string_buffer(4096)
check(cuda.cuMemcpyDtoH_v2(back, memory[0], ctypes.c_size_t(4096)))
assert back.raw == bytes([7]) * 4096
print('peer', cuda.cuMemcpyPeer(memory[0], contexts[0], memory[1], contexts[1], ctypes.c_size_t(16)))
check(cuda.cuCtxSetCurrent(contexts[1]))
more = ctypes.c_uint64()
print('second', cuda.cuMemAlloc_v2(ctypes.byref(more), ctypes.c_size_t(64)), cuda.cuCtxSynchronize())
check(cuda.cuCtxSetCurrent(contexts[0]))
check(cuda.cuMemAlloc_v2(ctypes.byref(more), ctypes.c_size_t(64)))
print('end', flush=True)
os._exit(0)  # the host function that still waits is Python's
"""


def run(servers, *words, **env):
    return subprocess.run([TESSERA, "run", "--quiet", "--server", servers, "--", *words], env=environment(**env),
                          capture_output=True, text=True, timeout=400)


class SeveralServers(unittest.TestCase):
    def server(self, devices=1, memory_mib=1024, **more):
        server = Server(env=environment(TESSERA_EMULATOR_DEVICES=str(devices), TESSERA_EMULATOR_MEMORY_MIB=str(memory_mib)), **more)
        self.addCleanup(server.stop)
        return server

    def succeed(self, done):
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def listed(self, servers, **env):
        return self.succeed(run(servers, sys.executable, "-c", LIST, **env)).splitlines()

    @built
    def test_everything_on_and_between_two_devices(self):
        here, tcp, mirrored = {}, {"tcp": True}, {"mirrored": True}
        for ways in ((here, here), (here, tcp), (tcp, here), (mirrored, mirrored)):
            with self.subTest(ways=ways):
                servers = ",".join(self.server(**way).url for way in ways)
                done = run(servers, program("two_servers"))
                self.assertEqual(self.succeed(done).splitlines()[-1], "ok")
                self.assertEqual(done.stderr, "")

    @built
    def test_a_context_that_breaks_holds_up_no_other_server(self):
        servers = f"{self.server().url},{self.server().url}"
        for when in ([], ["later"], [], ["later"]):
            with self.subTest(when=when):
                self.assertEqual(self.succeed(run(servers, program("two_servers_fault"), *when)), "ok\n")

    @built
    def test_a_managed_variable_belongs_to_one_server(self):
        done = run(f"{self.server().url},{self.server().url}", program("two_servers_managed"))
        self.assertEqual(self.succeed(done).splitlines(), ["cudaErrorNotSupported", "ok"], done.stderr)
        self.assertIn("__managed__", done.stderr)

    def test_devices_are_joined_and_distinct(self):
        first, second = self.server(devices=2, memory_mib=512), self.server(memory_mib=256)
        lines = self.listed(f"{first.url},{second.url}")
        self.assertEqual(lines[0], "0 0 3")
        cuda = [line.split()[1:] for line in lines if line.startswith("cuda")]
        nvml = [line.split()[1:] for line in lines if line.startswith("nvml")]
        self.assertEqual(len({bus for bus, _ in cuda}), 3)
        self.assertEqual(len({uuid for _, uuid in cuda}), 3)
        self.assertEqual([uuid for _, uuid in cuda], [uuid for uuid, _ in nvml])
        self.assertEqual([memory for _, memory in nvml], ["512", "512", "256"])

    def test_visible_devices_select_from_the_joined_list(self):
        first, second = self.server(devices=2), self.server()
        servers = f"{first.url},{second.url}"
        every = [line for line in self.listed(servers) if line.startswith("cuda")]

        def of(line):
            uuid = line.split()[2]
            return f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"

        name = of(every[2])
        for visible, wanted in (("2", [2]), ("2,0", [2, 0]), ("1,2,0", [1, 2, 0]), ("0,7,1", [0]), (name, [2]), (f"{name},{of(every[1])}", [2, 1]), (name + ",1", [2])):
            with self.subTest(visible=visible):
                lines = [line for line in self.listed(servers, CUDA_VISIBLE_DEVICES=visible) if line.startswith("cuda")]
                self.assertEqual(lines, [every[i] for i in wanted])
        for visible, code in (("9", 100), ("1,1", 101)):
            none = run(servers, sys.executable, "-c", "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))", CUDA_VISIBLE_DEVICES=visible)
            self.assertEqual(self.succeed(none), f"{code}\n")

    def test_a_lost_server_takes_its_devices_alone(self):
        for tcp in (False, True):
            with self.subTest(tcp=tcp):
                self.lose(self.server(), self.server(tcp=tcp))

    def lose(self, first, second):
        process = subprocess.Popen([TESSERA, "run", "--quiet", "--server", f"{first.url},{second.url}", "--", sys.executable, "-c", LOSE],
                                   env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        late = threading.Timer(60, process.kill)
        late.start()
        self.addCleanup(late.cancel)
        self.assertEqual(process.stdout.readline(), "ready\n", process.poll())
        for worker in second.workers():
            os.kill(worker, 9)
        out, err = process.communicate("go on\n")
        self.assertEqual(out.splitlines(), ["first 46", "peer 46", "second 46 46", "end"], err)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn(second.url, err)
        self.assertIn("its devices", err)

    def test_status_tells_of_each(self):
        first, second = self.server(), self.server(tcp=True)
        done = subprocess.run([TESSERA, "status", "--server", f"{first.url},{second.url}"], env=environment(), capture_output=True,
                              text=True, timeout=60)
        lines = self.succeed(done).splitlines()
        self.assertEqual([line.split(": ")[0] for line in lines if "tesserad" in line], [first.url, second.url])
        # One that does not answer takes nothing away from the others.
        dead = "unix:/nonexistent/tessera.sock"
        words = ("--server", f"{dead},{first.url}")
        for command in ("status", "top"):
            done = subprocess.run([TESSERA, command, *words, "-o", "json"], env=environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (72, 1), done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual(told["schema_version"], 1)
            failed, answers = told["servers"]
            self.assertEqual((failed["url"], failed["exit_code"], set(failed)), (dead, 72, {"url", "error", "exit_code"}))
            self.assertIn(failed["error"], done.stderr)
            self.assertEqual((answers["url"], answers["sessions"]), (first.url, 0))
            done = subprocess.run([TESSERA, command, *words], env=environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 72)
            self.assertIn(f"{first.url}: tesserad", done.stdout)


if __name__ == "__main__":
    unittest.main()
