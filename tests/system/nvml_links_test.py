#!/usr/bin/env python3
"""What libnvidia-ml.so.1 tells of the links of devices and of pairs of them, in a process with two servers of two devices each,
whose machines have an NVML of their own (fake_nvml.cc).

usage: nvml_links_test.py BUILD_DIRECTORY
"""

import ctypes
import os
import struct
import unittest

from product import BUILD, CLIENT, Server, environment

INVALID, NOT_SUPPORTED, NOT_FOUND, VERSION = 2, 3, 6, 25
LINKS, LINKS_MAX, STATE_FIELD = 4, 18, 165


class Field(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_uint), ("result", ctypes.c_int), ("value", ctypes.c_ulonglong)]


class Links(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        fake = environment(TESSERA_EMULATOR_DEVICES="2", LD_LIBRARY_PATH=os.path.join(BUILD, "tests/system/fake_nvml"))
        driver = os.path.join(BUILD, "lib/libtessera-emulator.so")
        cls.servers = [Server(driver=driver, env=fake), Server(driver=driver, env=fake, mirrored=True)]
        os.environ["TESSERA_SERVER"] = ",".join(server.url for server in cls.servers)
        cls.nvml = ctypes.CDLL(os.path.join(CLIENT, "libnvidia-ml.so.1"))
        assert cls.nvml.nvmlInit_v2() == 0
        cls.devices = []
        for index in range(4):
            device = ctypes.c_void_p()
            assert cls.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
            cls.devices.append(device)

    @classmethod
    def tearDownClass(cls):
        cls.nvml.nvmlShutdown()
        for server in cls.servers:
            server.stop()

    def number(self, function, *arguments, kind=ctypes.c_uint, device=0):
        out = kind(77)
        result = getattr(self.nvml, function)(self.devices[device], *arguments, ctypes.byref(out))
        return [result, out.value] if result == 0 else [result]

    def index_of(self, bus_id):
        found, index = ctypes.c_void_p(), ctypes.c_uint()
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id, ctypes.byref(found)), 0, bus_id)
        self.assertEqual(self.nvml.nvmlDeviceGetIndex(found, ctypes.byref(index)), 0)
        return index.value

    def form(self, function, version, words, device=0):
        struct = (ctypes.c_uint * (2 + words))(4 + 4 * words | version << 24)
        result = getattr(self.nvml, function)(self.devices[device], struct)
        self.assertEqual(struct[1 + words], 0)
        return result, list(struct[1:1 + words])

    def test_every_link_and_every_kind(self):
        for link in range(LINKS_MAX + 1):
            there = link < LINKS
            missing = [INVALID]  # as NVML itself says of a link that the device does not have
            with self.subTest(link=link):
                self.assertEqual(self.number("nvmlDeviceGetNvLinkState", link), [0, int(link != 3)] if there else missing)
                self.assertEqual(self.number("nvmlDeviceGetNvLinkVersion", link), [0, 7 + link] if there else missing)
                kind = [0, 0 if link == 0 else 2] if link < 3 else [NOT_SUPPORTED if link < LINKS_MAX else INVALID]
                self.assertEqual(self.number("nvmlDeviceGetNvLinkRemoteDeviceType", link), kind)
                for kind in range(6):
                    told = self.number("nvmlDeviceGetNvLinkCapability", link, kind)
                    self.assertEqual(told, [0, 10 * link + kind] if there else missing)
                for kind in range(5):
                    told = self.number("nvmlDeviceGetNvLinkErrorCounter", link, kind, kind=ctypes.c_ulonglong)
                    self.assertEqual(told, [0, (1 << 33) + 10 * link + kind] if there else missing)
        self.assertEqual(self.number("nvmlDeviceGetNvLinkCapability", 0, 6), [INVALID])
        self.assertEqual(self.number("nvmlDeviceGetNvLinkErrorCounter", 0, 5, kind=ctypes.c_ulonglong), [INVALID])

    def remote(self, device, link, function="nvmlDeviceGetNvLinkRemotePciInfo_v2", size=68):
        out = ctypes.create_string_buffer(b"\xee" * 128, 128)
        result = getattr(self.nvml, function)(self.devices[device], link, out)
        self.assertEqual(out.raw[size if result == 0 else 0:], b"\xee" * (128 - (size if result == 0 else 0)))
        return result, out.raw[:size]

    def test_what_is_at_the_other_end(self):
        """The devices of the second server, and what it sees of switches, are in another PCI domain."""
        for device, other in enumerate((1, 0, 3, 2)):
            domain = 0 if device < 2 else 0x1000
            with self.subTest(device=device):
                result, info = self.remote(device, 0)
                self.assertEqual(result, 0)
                place = struct.unpack("<5I", info[16:36])
                self.assertEqual(place, (domain, 1 + other % 2, 0, 0x22a310de, 0xabcd))
                self.assertEqual(info[:16].rstrip(b"\0"), b"%04X:%02X:00.0" % place[:2])
                bus_id = info[36:].split(b"\0")[0]
                self.assertEqual(bus_id, b"%08X:%02X:00.0" % place[:2])
                self.assertEqual(self.index_of(bus_id), other)
                self.assertEqual(self.remote(device, 1)[1][36:].split(b"\0")[0], b"%08X:05:00.0" % domain)
                # NCCL takes these digits for a switch that is not visible.
                self.assertEqual(self.remote(device, 2)[1][:16], b"FFFFFFF:FFFF:FF\0")
                self.assertEqual(self.remote(device, 3)[0], NOT_SUPPORTED)
        self.assertEqual(self.remote(0, LINKS_MAX)[0], INVALID)

    def test_the_old_form_of_what_is_at_the_other_end(self):
        for device in (0, 2):
            whole = self.remote(device, 0)[1]
            self.assertEqual(self.remote(device, 0, "nvmlDeviceGetNvLinkRemotePciInfo", 36), (0, whole[:36]))
        self.assertEqual(self.remote(0, 3, "nvmlDeviceGetNvLinkRemotePciInfo", 36)[0], NOT_SUPPORTED)

    def test_states_of_links_are_asked_for_together(self):
        """As NCCL asks, one field at a time: kept for a moment, so that the server answers a few of these questions at most."""
        questions = set()
        for link in range(LINKS_MAX):
            field = Field(STATE_FIELD, link)
            self.assertEqual(self.nvml.nvmlDeviceGetFieldValues(self.devices[1], 1, ctypes.byref(field)), 0)
            self.assertEqual((field.field, field.scope), (STATE_FIELD, link))
            self.assertEqual(field.result, 0 if link < LINKS else INVALID)
            if link < LINKS:
                self.assertEqual(field.value, int(link != 3))
            questions.add(field.time)
        self.assertLess(len(questions), LINKS_MAX // 2)
        other = (Field * 3)(Field(STATE_FIELD, 3), Field(82, 1), Field(STATE_FIELD, LINKS_MAX))
        self.assertEqual(self.nvml.nvmlDeviceGetFieldValues(self.devices[1], 3, other), 0)
        self.assertEqual([(one.result, one.value) for one in other[:2]], [(0, 0), (0, (1 << 40) + 821)])
        self.assertEqual(other[2].result, INVALID)

    def test_a_link_that_no_device_has_is_not_asked_for(self):
        fields = (Field * 4)(Field(82, LINKS_MAX), Field(82, 2), Field(83, 0xFFFFFFFF), Field(82, 0xFFFFFFFE))
        self.assertEqual(self.nvml.nvmlDeviceGetFieldValues(self.devices[1], 4, fields), 0)
        self.assertEqual([one.result for one in fields], [INVALID, 0, 0, INVALID])
        self.assertEqual(fields[1].value, (1 << 40) + 822)

    def test_fabric(self):
        words = (ctypes.c_uint * 8)()
        self.assertEqual(self.nvml.nvmlDeviceGetGpuFabricInfo(self.devices[2], words), 0)
        self.assertEqual(list(words), [*range(100, 107), 0])
        function = "nvmlDeviceGetGpuFabricInfoV"
        self.assertEqual(self.form(function, 2, 8), (0, list(range(401, 409))))
        self.assertEqual(self.form(function, 3, 9, device=3), (0, list(range(501, 510))))
        for version, count in ((1, 8), (2, 9), (3, 8), (4, 9)):
            self.assertEqual(self.form(function, version, count), (VERSION, [0] * count))

    def test_other_structs_of_several_forms(self):
        self.assertEqual(self.form("nvmlDeviceGetNvLinkInfo", 1, 1), (0, [1001]))
        self.assertEqual(self.form("nvmlDeviceGetNvLinkInfo", 2, 402), (0, list(range(1001, 1403))))
        self.assertEqual(self.form("nvmlDeviceGetPlatformInfo", 2, 10), (0, list(range(51, 61))))
        # The server's library does not know this one.
        self.assertEqual(self.form("nvmlDeviceGetPlatformInfo", 1, 10), (NOT_SUPPORTED, [0] * 10))

    def test_how_two_devices_are_connected(self):
        for device in range(4):
            for other in range(4):
                with self.subTest(device=device, other=other):
                    peer = self.devices[other]
                    level = self.number("nvmlDeviceGetTopologyCommonAncestor", peer, device=device)
                    nvlink, pci = (self.number("nvmlDeviceGetP2PStatus", peer, what, device=device) for what in (2, 4))
                    if device == other:
                        self.assertEqual((level, nvlink, pci), ([0, 0], [0, 0], [0, 0]))
                    elif device // 2 == other // 2:
                        self.assertEqual((level, nvlink, pci), ([0, 40], [0, 0], [0, 1]))
                    else:
                        self.assertEqual((level, nvlink, pci), ([NOT_SUPPORTED], [0, 5], [0, 5]))

    def test_the_relation_that_nvidia_smi_asks_for(self):
        table = ctypes.c_void_p()
        self.nvml.nvmlInternalGetExportTable(ctypes.byref(table), bytes.fromhex("c4fe3e6cc98f6c4ea327ee696e12f7c4"))
        ask = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 3))(ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[23])
        places = []
        for device in self.devices[:2]:
            info = ctypes.create_string_buffer(256)  # nvmlPciInfo_t, its newest name of the place is the last member
            self.assertEqual(self.nvml.nvmlDeviceGetPciInfo_v3(device, info), 0)
            places.append(ctypes.create_string_buffer(info.raw[36:68], 32))
        relation = ctypes.c_uint(99)
        address = [ctypes.addressof(place) for place in places]
        self.assertEqual((ask(address[0], address[1], ctypes.addressof(relation)), relation.value), (0, 3))  # NVML's level is 40
        self.assertEqual(ask(address[0], address[0], ctypes.addressof(relation)), NOT_SUPPORTED)
        nobody = ctypes.create_string_buffer(b"0000:ff:1f.0")
        self.assertEqual(ask(ctypes.addressof(nobody), address[1], ctypes.addressof(relation)), NOT_FOUND)

    def nearest(self, device, level, room):
        count, found = ctypes.c_uint(room), (ctypes.c_void_p * 5)()
        where = found if room else None
        result = self.nvml.nvmlDeviceGetTopologyNearestGpus(self.devices[device], level, ctypes.byref(count), where)
        handles = {handle.value: index for index, handle in enumerate(self.devices)}
        return result, count.value, [handles[handle] for handle in found if handle is not None]

    def test_nearest_devices(self):
        """They are of the same server."""
        for device, others in ((0, [0, 1]), (3, [2, 3])):
            self.assertEqual(self.nearest(device, 10, 0), (0, 0, []))
            self.assertEqual(self.nearest(device, 10, 4), (0, 0, []))
            self.assertEqual(self.nearest(device, 50, 0), (0, 2, []))
            self.assertEqual(self.nearest(device, 50, 4), (0, 2, others))
            self.assertEqual(self.nearest(device, 50, 1), (0, 1, others[:1]))
        self.assertEqual(self.nearest(3, 40, 1), (0, 1, [2]))
        for level in (15, 60):
            self.assertEqual(self.nearest(0, level, 1)[0], INVALID)
        count = ctypes.c_uint(1)
        self.assertEqual(self.nvml.nvmlDeviceGetTopologyNearestGpus(self.devices[0], 50, ctypes.byref(count), None), INVALID)


if __name__ == "__main__":
    unittest.main(verbosity=2)
