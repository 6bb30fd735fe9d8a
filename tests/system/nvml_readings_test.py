#!/usr/bin/env python3
"""libnvidia-ml.so.1 against a server whose machine has an NVML of its own (fake_nvml.cc): every kind of reading comes through.

usage: nvml_readings_test.py BUILD_DIRECTORY
"""

import ctypes
import json
import os
import subprocess
import sys
import unittest

from product import BUILD, CLIENT, Server, environment

NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT, INVALID = 3, 6, 7, 2

# Asks in a process of its own, which has a session; prints one JSON object.
ASK = f"""import ctypes, json, os
nvml, cuda = ctypes.CDLL('{CLIENT}/libnvidia-ml.so.1'), ctypes.CDLL('{CLIENT}/libcuda.so.1')
assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
device, seen = ctypes.c_void_p(), {{}}
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
def words(function, *arguments, size=1, kind=ctypes.c_uint, start=()):
    out = (kind * size)(*start)
    result = getattr(nvml, function)(device, *arguments, out)
    return [result, *out] if result == 0 else [result]
def outs(function, count):
    values = [ctypes.c_uint() for _ in range(count)]
    return [getattr(nvml, function)(device, *map(ctypes.byref, values)), *(value.value for value in values)]
def text(function, *arguments, size=80):
    out = ctypes.create_string_buffer(96)
    result = getattr(nvml, function)(device, *arguments, out, size)
    return [result, out.value.decode()]
large = ctypes.c_ulonglong
seen['pair'] = outs('nvmlDeviceGetPowerManagementLimitConstraints', 2)
seen['triple'] = outs('nvmlDeviceGetEncoderStats', 3)
seen['quadruple'] = outs('nvmlDeviceGetRemappedRows', 4)
seen['struct32'] = words('nvmlDeviceGetRowRemapperHistogram', size=5)
seen['struct64'] = words('nvmlDeviceGetBAR1MemoryInfo', size=3, kind=large)
seen['versioned32'] = words('nvmlDeviceGetMarginTemperature', size=2, kind=ctypes.c_int, start=(8 | 1 << 24,))
seen['versioned64'] = words('nvmlDeviceGetPdi', size=2, kind=large, start=(16 | 1 << 24,))
seen['large'] = words('nvmlDeviceGetTotalEnergyConsumption', kind=large)
seen['choice'] = [words('nvmlDeviceGetTemperatureThreshold', which) for which in (0, 1, 2, 9)]
seen['choice of pairs'] = words('nvmlDeviceGetViolationStatus', 5, size=2, kind=large)
seen['two choices'] = words('nvmlDeviceGetTotalEccErrors', 1, 0, kind=large)
seen['two choices, row'] = words('nvmlDeviceGetDetailedEccErrors', 0, 1, size=4, kind=large)
seen['three choices'] = words('nvmlDeviceGetMemoryErrorCounter', 1, 0, 7, kind=large)
seen['text'] = [text('nvmlDeviceGetSerial'), text('nvmlDeviceGetSerial', size=7)]
seen['choice of texts'] = [text('nvmlDeviceGetInforomVersion', which)[:2] for which in (1, 3, 4)]
seen['firmware'] = text('nvmlDeviceGetGspFirmwareVersion')
seen['traffic'] = [words('nvmlDeviceGetPcieThroughput', which) for which in (0, 1)]
seen['clock'] = [words('nvmlDeviceGetClock', 2, 0), words('nvmlDeviceGetClock', 2, 1)]
pci = words('nvmlDeviceGetPciInfo_v3', size=17)
seen['pci'] = [pci[0], *map(hex, pci[8:10])]
more = words('nvmlDeviceGetPciInfoExt', size=16, start=(64 | 1 << 24,))
seen['pci class'] = [more[0], *more[7:9]]
found = ctypes.c_void_p()
seen['by serial'] = []
for serial in (b'0123456', b'0123457', b'no'):
    seen['by serial'].append([nvml.nvmlDeviceGetHandleBySerial(serial, ctypes.byref(found)), found.value - device.value])
def clocks(function, *arguments, room=4):
    count, out = ctypes.c_uint(room), (ctypes.c_uint * 4)()
    return [getattr(nvml, function)(device, *arguments, ctypes.byref(count), out if room else None), count.value, *out]
seen['memory clocks'] = [clocks('nvmlDeviceGetSupportedMemoryClocks', room=0), clocks('nvmlDeviceGetSupportedMemoryClocks')]
seen['graphics clocks'] = [clocks('nvmlDeviceGetSupportedGraphicsClocks', mhz)[:-1] for mhz in (2619, 3201, 1)]
class Field(ctypes.Structure):
    _fields_ = [('field', ctypes.c_uint), ('scope', ctypes.c_uint), ('time', ctypes.c_longlong), ('latency', ctypes.c_longlong),
                ('type', ctypes.c_uint), ('result', ctypes.c_int), ('value', ctypes.c_ulonglong)]
fields = (Field * 100)(*((1 + 2 * i, i % 3) for i in range(100)))
assert nvml.nvmlDeviceGetFieldValues(device, 100, fields) == 0
seen['fields'] = [[f.field, f.scope, f.result, f.type, f.value, f.time, f.latency] for f in (fields[0], fields[70], fields[99])]
seen['fields answered'] = sum(f.result == 0 for f in fields)
class Sample(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('time', large), ('sm', ctypes.c_uint), ('memory', ctypes.c_uint), ('encoder', ctypes.c_uint),
                ('decoder', ctypes.c_uint)]
def samples(room, since):
    count, out = ctypes.c_uint(room), (Sample * 4)()
    result = nvml.nvmlDeviceGetProcessUtilization(device, out if room else None, ctypes.byref(count), large(since))
    return [result, count.value] + ([out[0].pid == os.getpid(), out[0].time, out[0].sm, out[0].memory, out[0].decoder] if result == 0 else [])
seen['loads'] = [samples(0, 0), samples(4, 0), samples(4, 5000000)[:1]]
class Detail(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', large), ('gpu', ctypes.c_uint), ('compute', ctypes.c_uint), ('protected', large)]
class Details(ctypes.Structure):
    _fields_ = [('version', ctypes.c_uint), ('mode', ctypes.c_uint), ('count', ctypes.c_uint), ('details', ctypes.POINTER(Detail))]
room = (Detail * 4)()
details = Details(24 | 1 << 24, 0, 4, room)
seen['process details'] = [nvml.nvmlDeviceGetRunningProcessDetailList(device, ctypes.byref(details)), details.count,
                           room[0].pid == os.getpid(), room[0].used]
seen['process name'] = [ctypes.string_at(buffer).decode() for buffer in [ctypes.create_string_buffer(256)]
                        if nvml.nvmlSystemGetProcessName(os.getpid(), buffer, 256) == 0]
class Process(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', large), ('gpu', ctypes.c_uint), ('compute', ctypes.c_uint), ('protected', large),
                ('name', ctypes.c_char * 4096)]
table, known = ctypes.c_void_p(), bytes.fromhex('c4fe3e6cc98f6c4ea327ee696e12f7c4')
assert nvml.nvmlInternalGetExportTable(ctypes.byref(table), known) == 0
slots = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
def slot(number, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 3))(slots[number])(*arguments)
listed, count = (Process * 8)(), ctypes.c_uint(8)
seen['of nvidia-smi'] = [slot(213, device, ctypes.addressof(count), ctypes.addressof(listed)), count.value,
                         listed[0].pid == os.getpid(), listed[0].used, listed[0].name.decode()]
count.value = 8
seen['of nvidia-smi'] += [slot(214, device, ctypes.addressof(count), ctypes.addressof(listed)), count.value]
print(json.dumps(seen))
"""


class Readings(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        server = Server(driver=os.path.join(BUILD, "lib/libtessera-emulator.so"),
                        env=environment(TESSERA_EMULATOR_DEVICES="2", LD_LIBRARY_PATH=os.path.join(BUILD, "tests/system/fake_nvml")))
        done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=60,
                              env=environment(TESSERA_SERVER=server.url))
        server.stop()
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.seen = json.loads(done.stdout)

    def check(self, **expected):
        self.assertEqual({name: self.seen[name.replace("_", " ")] for name in expected}, expected)

    def test_one_function_of_each_kind(self):
        self.check(pair=[0, 200_000, 700_000], triple=[0, 1, 2, 3], quadruple=[0, 4, 5, 6, 7], large=[0, 1 << 35],
                   struct32=[0, 640, 641, 642, 643, 644], struct64=[0, 1 << 40, (1 << 40) + 1, (1 << 40) + 2],
                   versioned32=[0, 8 | 1 << 24, -3], versioned64=[0, 16 | 1 << 24, 0x123456789abcdef0])

    def test_choices(self):
        self.check(choice=[[0, 90], [0, 91], [NOT_SUPPORTED], [INVALID]], choice_of_pairs=[0, 1005, 2005], two_choices=[0, 10],
                   three_choices=[0, 1107], clock=[[0, 1002], [NOT_SUPPORTED]], traffic=[[0, 70], [0, 71]])
        self.assertEqual(self.seen["two choices, row"], [0, 10, 11, 12, 13])

    def test_lists_of_clocks(self):
        self.check(memory_clocks=[[INSUFFICIENT, 2, 0, 0, 0, 0], [0, 2, 3201, 2619, 0, 0]],
                   graphics_clocks=[[0, 3, 1980, 1965, 345], [NOT_SUPPORTED, 4, 0, 0, 0], [NOT_FOUND, 4, 0, 0, 0]])

    def test_texts(self):
        self.check(text=[[0, "0123456"], [INSUFFICIENT, ""]], firmware=[0, "580.1.2"],
                   choice_of_texts=[[0, "G520.1"], [NOT_SUPPORTED, ""], [INVALID, ""]], by_serial=[[0, 0], [0, 1], [NOT_FOUND, 1]])

    def test_pci(self):
        self.check(pci=[0, "0x233510de", "0x18be10de"], pci_class=[0, 3, 2])

    def test_fields(self):
        """In pieces: more than one question to the server holds."""
        self.check(fields=[[1, 0, 0, 3, (1 << 40) + 10, 123, 4], [141, 1, 0, 3, (1 << 40) + 1411, 123, 4],
                           [199, 0, 0, 3, (1 << 40) + 1990, 123, 4]], fields_answered=100)

    def test_processes(self):
        self.check(loads=[[INSUFFICIENT, 1], [0, 1, True, 5_000_000, 61, 7, 1], [NOT_FOUND]],
                   process_details=[0, 1, True, 7 << 20], process_name=[sys.executable])

    def test_what_nvidia_smi_asks(self):
        self.assertEqual(self.seen["of nvidia-smi"], [0, 1, True, 7 << 20, sys.executable, 0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
