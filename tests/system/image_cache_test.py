#!/usr/bin/env python3
"""GPU code that a server has been sent is not sent again: not by a second process, not after the server was started anew.

usage: image_cache_test.py BUILD_DIRECTORY
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from product import TESSERA, Server, environment, wait_for

PTX_BYTES = 600_000  # named, in several pieces
# Loads PTX text of so many bytes, runs its kernel, prints what it computed.
CLIENT = r"""
import ctypes, struct, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
text = (b".version 8.0\n.target sm_70\n.address_size 64\n" + b"// " + b"x" * %d + b"\n" + b'''
.visible .entry set(.param .u64 out, .param .u32 value) {
  .reg .u64 %%a; .reg .u32 %%v;
  ld.param.u64 %%a, [out]; cvta.to.global.u64 %%a, %%a; ld.param.u32 %%v, [value];
  add.u32 %%v, %%v, ''' + sys.argv[1].encode() + b'''; st.global.u32 [%%a], %%v; ret;
}''')
check(cuda.cuInit(0))
context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
for _ in range(int(sys.argv[2])):
    check(cuda.cuModuleLoadData(ctypes.byref(module), text))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"set"))
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)))
value = ctypes.c_uint32(1000)
arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))
out = ctypes.c_uint32()
check(cuda.cuMemcpyDtoH_v2(ctypes.byref(out), memory, ctypes.c_size_t(4)))
print(out.value)
""" % PTX_BYTES

# Loads an image of several parts, as programs built with -rdc=true have them: a kernel for each argument, which is part of its code.
PARTS = r"""
import ctypes, struct, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
def fatbin(text):
    text = text + b"\0" * (8 - len(text) %% 8) if text else b""
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 80, len(text), 0, 0x40, 0, 8, 70, 0, 0, 0x11, 0, 0).ljust(80, b"\0") if text else b""
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(text)) + entry + text
def part(name):
    return fatbin(b".version 8.0\n.target sm_70\n.address_size 64\n// " + b"x" * %d + b"\n.visible .entry " + name.encode() + b"() { ret; }\n")
parts = [ctypes.create_string_buffer(fatbin(b"")), *(ctypes.create_string_buffer(part(name)) for name in sys.argv[1:])]
members = (ctypes.c_void_p * len(parts))(*(ctypes.addressof(one) for one in parts[1:]), None)
wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 2, ctypes.addressof(parts[0]), ctypes.addressof(members)))
check(cuda.cuInit(0))
context, library, kernel = (ctypes.c_void_p() for _ in range(3))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuLibraryLoadData(ctypes.byref(library), wrapper, None, None, 0, None, None, 0))
for name in sys.argv[1:]:
    check(cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode()))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
check(cuda.cuCtxSynchronize())
print("ok")
""" % PTX_BYTES


class ImageCache(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.images = os.path.join(self.directory.name, "images")

    def tearDown(self):
        self.directory.cleanup()

    def server(self, *options, **how):
        return Server("--image-cache", self.images, *options, **how)

    def run_client(self, url, addend=7, loads=1):
        """Bytes that the client sent."""
        done = subprocess.run([TESSERA, "run", "--quiet", "--server", url, "--", sys.executable, "-c", CLIENT, str(addend), str(loads)],
                              env=environment(TESSERA_STATS="1"), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, f"{1000 + addend}\n"), done.stderr)
        return int(re.search(r"^all +\d+ +\d+ +(\d+)", done.stderr, re.M).group(1))

    def kept(self):
        return [name for name in os.listdir(self.images) if not name.endswith(".new")] if os.path.isdir(self.images) else []

    def wait_for_images(self, count):
        wait_for(lambda: len(self.kept()) == count, 10, f"the keeping of {count} images")
        return self.kept()

    def check_second_process_sends_nothing(self, **how):
        server = self.server(**how)
        try:
            self.assertGreater(self.run_client(server.url), PTX_BYTES)
            self.wait_for_images(1)
            self.assertLess(self.run_client(server.url), 10_000)
            # Code that differs in one digit is other code.
            self.assertGreater(self.run_client(server.url, addend=8), PTX_BYTES)
            self.wait_for_images(2)
        finally:
            server.stop()
        again = self.server(**how)
        try:
            self.assertLess(self.run_client(again.url), 10_000)
            self.assertLess(self.run_client(again.url, addend=8), 10_000)
        finally:
            again.stop()

    def test_a_second_process_sends_nothing(self):
        self.check_second_process_sends_nothing()

    def test_nor_where_no_pages_are_shared(self):
        self.check_second_process_sends_nothing(mirrored=True)

    def test_nor_over_tcp(self):
        self.check_second_process_sends_nothing(tcp=True)

    def test_a_private_server_uses_what_the_one_before_it_kept(self):
        variables = environment(TESSERA_STATS="1", XDG_CACHE_HOME=self.directory.name)
        self.images = os.path.join(self.directory.name, "tessera/images")

        def sent():
            done = subprocess.run([TESSERA, "run", "--quiet", "--driver", "emulator", "--", sys.executable, "-c", CLIENT, "7", "1"],
                                  env=variables, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, "1007\n"), done.stderr)
            return int(re.search(r"^all +\d+ +\d+ +(\d+)", done.stderr, re.M).group(1))

        # A server ends with its program, and what it has not written by then is not kept: on a busy machine that is possible.
        self.assertGreater(sent(), PTX_BYTES)
        for _ in range(10):
            if self.kept():
                break
            sent()
        self.assertEqual(len(self.kept()), 1)
        self.assertLess(sent(), 10_000)

    def test_some_parts_of_an_image_are_there_and_some_are_not(self):
        server = self.server()
        try:
            for names, kept in ((("a", "b"), 2), (("a", "c"), 3), (("d", "b"), 4), (("a", "d"), 4)):
                done = subprocess.run([TESSERA, "run", "--quiet", "--server", server.url, "--", sys.executable, "-c", PARTS, *names],
                                      env=environment(), capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""), names)
                self.wait_for_images(kept)
        finally:
            server.stop()

    def test_without_a_cache_it_is_asked_for_once(self):
        server = self.server("--image-cache-size", "0")
        try:
            once, thrice = self.run_client(server.url), self.run_client(server.url, loads=3)
            self.assertGreater(thrice, 3 * PTX_BYTES)
            self.assertLess(thrice - once, 2 * PTX_BYTES + 10_000)
            self.assertFalse(os.path.exists(self.images))
        finally:
            server.stop()

    def test_a_damaged_file_does_no_harm(self):
        server = self.server()
        try:
            self.run_client(server.url)
            name, = self.wait_for_images(1)
            os.truncate(os.path.join(self.images, name), 1000)
            self.assertGreater(self.run_client(server.url), PTX_BYTES)
            self.wait_for_images(1)
            self.assertIn("does not have the size it was written with", server.words())
        finally:
            server.stop()

    def test_the_death_of_the_keeper_costs_no_session(self):
        server = self.server()
        try:
            self.run_client(server.url)
            keeper, = [pid for pid, words in server.children_by_words().items() if "--keeper-fd" in words]
            os.kill(keeper, 9)
            for _ in range(3):
                self.run_client(server.url)
            self.assertLess(self.run_client(server.url), 10_000)
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
