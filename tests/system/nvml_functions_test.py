#!/usr/bin/env python3
"""Every function of libnvidia-ml.so.1, called wrongly: what it says before nvmlInit, without a device, without room for the
answer, with a struct of another version. None says success without an answer.

usage: nvml_functions_test.py BUILD_DIRECTORY
"""

import ctypes
import os
import pathlib
import re
import unittest

from product import CLIENT, Server, environment

SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT, TIMEOUT, VERSION = 0, 1, 2, 3, 6, 7, 10, 25
ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = (ROOT / "tests/tidy/nvml_exports.txt").read_text().split()
LINES = re.findall(r"^(\w+)\((.*)\)$", (ROOT / "protocol/wire/device_readings.def").read_text(), re.M)
UNSUPPORTED = re.findall(r"^(DEVICE|SYSTEM)\((\w+)\)$", (ROOT / "client-stub/nvml/unsupported.def").read_text(), re.M)

# Need no nvmlInit.
ALWAYS = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlErrorString", "nvmlInternalGetExportTable"}
# Their first parameter is no device, or there is none.
NO_DEVICE = ALWAYS | {name for kind, name in UNSUPPORTED if kind == "SYSTEM"} | {
    "nvmlShutdown", "nvmlUnitGetCount", "nvmlGetExcludedDeviceCount", "nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"}
NO_DEVICE |= {name for name in FUNCTIONS if name.startswith(("nvmlSystem", "nvmlEventSet", "nvmlDeviceGetHandleBy"))}
OF_DEVICE = [name for name in FUNCTIONS if name not in NO_DEVICE]
# Bytes of the first version of a struct, and where it is among the parameters behind the device.
FORMS = []  # of functions that take one of several structs: name, version, bytes
STRUCTS = {"nvmlDeviceGetTemperatureV": 12, "nvmlDeviceGetPciInfoExt": 64, "nvmlDeviceGetRunningProcessDetailList": 24}
for kind, arguments in LINES:
    if "VERSIONED" in kind:
        *_, function, words = (word.strip() for word in arguments.split(","))
        STRUCTS[function] = 4 + 4 * int(words) if kind.endswith("32") else 8 + 8 * int(words)
    if kind == "READING_FORM32":
        *_, function, version, words = (word.strip() for word in arguments.split(","))
        FORMS.append((function, int(version), 4 + 4 * int(words)))


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(env=environment(TESSERA_EMULATOR_DEVICES="2"))
        os.environ["TESSERA_SERVER"] = cls.server.url
        cls.nvml = ctypes.CDLL(os.path.join(CLIENT, "libnvidia-ml.so.1"))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.assertEqual(self.nvml.nvmlInit_v2(), SUCCESS)
        self.device = ctypes.c_void_p()
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)), SUCCESS)

    def tearDown(self):
        self.nvml.nvmlShutdown()

    def call(self, name, *arguments):
        """With nulls for the parameters that are not given."""
        return getattr(self.nvml, name)(*arguments, *([None] * (6 - len(arguments))))

    def test_the_lists_are_about_these_functions(self):
        self.assertGreater(len(FUNCTIONS), 390)
        self.assertGreater(len(STRUCTS), 6)
        listed = {name for _, name in UNSUPPORTED} | {arguments.split(",")[3].strip() for _, arguments in LINES}
        self.assertEqual(listed - set(FUNCTIONS), set())

    def test_before_nvml_init(self):
        self.nvml.nvmlShutdown()
        for name in sorted(set(FUNCTIONS) - ALWAYS):
            with self.subTest(name):
                self.assertEqual(self.call(name, self.device), UNINITIALIZED)
        self.assertEqual(self.nvml.nvmlInit_v2(), SUCCESS)

    def test_no_such_device(self):
        for name in OF_DEVICE:
            for handle in (None, ctypes.c_void_p(77)):
                with self.subTest(name, handle=handle):
                    self.assertEqual(self.call(name, handle), INVALID)

    def test_no_room_for_the_answer(self):
        unsupported = {name for _, name in UNSUPPORTED}
        for name in sorted(set(FUNCTIONS) - ALWAYS - {"nvmlShutdown"}):
            first = () if name in NO_DEVICE else (self.device,)
            # P2P status has a second device.
            first += (self.device,) if name == "nvmlDeviceGetP2PStatus" else ()
            with self.subTest(name):
                self.assertEqual(self.call(name, *first), NOT_SUPPORTED if name in unsupported else INVALID)

    def test_versions_of_structs(self):
        for name, size in STRUCTS.items():
            for version in (0, size, size | 2 << 24, (size + 4) | 1 << 24):
                struct = (ctypes.c_uint * 40)(version)
                with self.subTest(name, version=hex(version)):
                    self.assertEqual(self.call(name, self.device, struct), VERSION)
                    self.assertEqual(list(struct[1:]), [0] * 39)
            struct = (ctypes.c_uint * 40)(size | 1 << 24)
            with self.subTest(name):
                self.assertIn(self.call(name, self.device, struct), (SUCCESS, NOT_SUPPORTED))
        uuid = (ctypes.c_uint * 13)(1)
        self.assertEqual(self.call("nvmlDeviceGetHandleByUUIDV", uuid, ctypes.byref(ctypes.c_void_p())), VERSION)

    def test_structs_of_several_forms(self):
        self.assertGreater(len(FORMS), 4)
        known = {(name, size | number << 24) for name, number, size in FORMS}
        for name, number, size in FORMS:
            for version in (0, size, size | number << 24, size | (number + 7) << 24, (size + 4) | number << 24):
                struct = (ctypes.c_uint * 500)(version)
                with self.subTest(name, version=hex(version)):
                    expected = NOT_SUPPORTED if (name, version) in known else VERSION
                    self.assertEqual(self.call(name, self.device, struct), expected)
                    self.assertEqual(list(struct[1:]), [0] * 499)

    def test_an_emulated_device_has_no_links(self):
        number = ctypes.c_ulonglong()
        for name in ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkVersion", "nvmlDeviceGetNvLinkRemoteDeviceType"):
            self.assertEqual(getattr(self.nvml, name)(self.device, 0, ctypes.byref(number)), NOT_SUPPORTED, name)
        for name in ("nvmlDeviceGetNvLinkCapability", "nvmlDeviceGetNvLinkErrorCounter"):
            self.assertEqual(getattr(self.nvml, name)(self.device, 0, 0, ctypes.byref(number)), NOT_SUPPORTED, name)
        pci = ctypes.create_string_buffer(68)
        for name in ("nvmlDeviceGetNvLinkRemotePciInfo", "nvmlDeviceGetNvLinkRemotePciInfo_v2"):
            self.assertEqual(getattr(self.nvml, name)(self.device, 0, pci), NOT_SUPPORTED, name)
        for name in ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"):
            words = (ctypes.c_uint * 10)(40 | 3 << 24)
            self.assertEqual(getattr(self.nvml, name)(self.device, words), NOT_SUPPORTED, name)

    def test_a_set_of_events_stays_empty(self):
        events, types, data = ctypes.c_void_p(), ctypes.c_ulonglong(77), ctypes.create_string_buffer(64)
        self.assertEqual(self.nvml.nvmlDeviceGetSupportedEventTypes(self.device, ctypes.byref(types)), SUCCESS)
        self.assertEqual(types.value, 0)
        self.assertEqual(self.nvml.nvmlEventSetCreate(ctypes.byref(events)), SUCCESS)
        self.assertEqual(self.nvml.nvmlDeviceRegisterEvents(self.device, ctypes.c_ulonglong(8), events), NOT_SUPPORTED)
        self.assertEqual(self.nvml.nvmlEventSetWait_v2(events, data, 1), TIMEOUT)
        self.assertEqual(self.nvml.nvmlEventSetFree(events), SUCCESS)
        for call in (lambda: self.nvml.nvmlEventSetFree(events), lambda: self.nvml.nvmlEventSetWait_v2(events, data, 1)):
            self.assertEqual(call(), INVALID)

    def test_both_forms_of_a_uuid(self):
        text, found = ctypes.create_string_buffer(96), ctypes.c_void_p()
        self.assertEqual(self.nvml.nvmlDeviceGetUUID(self.device, text, 96), SUCCESS)
        digits = bytes.fromhex(text.value.decode().removeprefix("GPU-").replace("-", ""))
        for kind, value in ((1, text.value), (2, digits)):
            uuid = ctypes.create_string_buffer((52 | 1 << 24).to_bytes(4, "little") + kind.to_bytes(4, "little") + value, 52)
            found.value = None
            self.assertEqual(self.nvml.nvmlDeviceGetHandleByUUIDV(uuid, ctypes.byref(found)), SUCCESS)
            self.assertEqual(found.value, self.device.value)
            uuid[8 + 3] = b"!"
            self.assertEqual(self.nvml.nvmlDeviceGetHandleByUUIDV(uuid, ctypes.byref(found)), NOT_FOUND)
        uuid = ctypes.create_string_buffer((52 | 1 << 24).to_bytes(4, "little") + (3).to_bytes(4, "little"), 52)
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByUUIDV(uuid, ctypes.byref(found)), INVALID)

    def test_old_forms_of_pci_info_write_no_further(self):
        for name, size in (("nvmlDeviceGetPciInfo", 32), ("nvmlDeviceGetPciInfo_v2", 36), ("nvmlDeviceGetPciInfo_v3", 68)):
            info = ctypes.create_string_buffer(b"\xee" * 128, 128)
            self.assertEqual(self.call(name, self.device, info), SUCCESS)
            self.assertEqual(info.raw[size:], b"\xee" * (128 - size), name)
            self.assertNotIn(b"\xee", info.raw[:size], name)

    def test_another_device_is_reached_as_the_driver_says(self):
        other, status = ctypes.c_void_p(), ctypes.c_uint(99)
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(other)), SUCCESS)
        cuda = ctypes.CDLL(os.path.join(CLIENT, "libcuda.so.1"))
        able = ctypes.c_int()
        self.assertEqual((cuda.cuInit(0), cuda.cuDeviceCanAccessPeer(ctypes.byref(able), 0, 1)), (0, 0))
        for what in (0, 1):
            self.assertEqual(self.nvml.nvmlDeviceGetP2PStatus(self.device, other, what, ctypes.byref(status)), SUCCESS)
            self.assertEqual(status.value, 0 if able.value else 5)
        self.assertEqual(self.nvml.nvmlDeviceGetP2PStatus(self.device, self.device, 0, ctypes.byref(status)), SUCCESS)
        self.assertEqual(status.value, 0)
        self.assertEqual(self.nvml.nvmlDeviceGetP2PStatus(self.device, other, 5, ctypes.byref(status)), INVALID)

    def test_fields_of_a_server_without_nvml(self):
        values = (ctypes.c_char * 40 * 70)()
        self.assertEqual(self.nvml.nvmlDeviceGetFieldValues(self.device, 70, values), SUCCESS)
        for value in values:
            self.assertEqual(int.from_bytes(value.raw[28:32], "little"), NOT_SUPPORTED)

    def test_names_of_processes(self):
        name = ctypes.create_string_buffer(64)
        self.assertEqual(self.nvml.nvmlSystemGetProcessName(os.getpid(), name, 4), SUCCESS)
        self.assertEqual(len(name.value), 3)
        self.assertEqual(self.nvml.nvmlSystemGetProcessName(0x7ffffffe, name, 64), NOT_FOUND)
        self.assertEqual(self.nvml.nvmlSystemGetProcessName(os.getpid(), name, 0), INVALID)

    def test_the_table_of_nvidia_smi(self):
        table, other = ctypes.c_void_p(), bytes(16)
        self.assertEqual(self.nvml.nvmlInternalGetExportTable(ctypes.byref(table), other), INVALID)
        known = bytes.fromhex("c4fe3e6cc98f6c4ea327ee696e12f7c4")
        self.assertEqual(self.nvml.nvmlInternalGetExportTable(ctypes.byref(table), known), SUCCESS)
        slots = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
        self.assertEqual(slots[0], 270 * 8)
        found = ctypes.c_void_p()
        for number in range(1, 270):
            function = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 3))(slots[number])
            result = function(self.device, ctypes.addressof(found) if number == 81 else 1, 1)
            # The handle of the first device is the index of the second one.
            told = {26: SUCCESS, 81: SUCCESS, 23: INVALID, 72: INVALID, 213: INVALID, 214: INVALID, 215: INVALID, 145: NOT_FOUND}
            self.assertEqual(result, told.get(number, NOT_SUPPORTED), number)
        self.assertEqual(found.value, self.device.value + 1)
        yes = ctypes.c_uint(7)
        function = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 3))(slots[72])
        self.assertEqual((function(self.device, ctypes.addressof(yes), None), yes.value), (SUCCESS, 1))

    def test_every_error_has_a_text(self):
        self.nvml.nvmlErrorString.restype = ctypes.c_char_p
        texts = {code: self.nvml.nvmlErrorString(code) for code in (0, 1, 2, 3, 4, 6, 7, 9, 10, 13, 15, 23, 25, 999)}
        self.assertEqual(len(set(texts.values())), len(texts))
        self.assertEqual(texts[15], b"GPU is lost")


if __name__ == "__main__":
    unittest.main(verbosity=1)
