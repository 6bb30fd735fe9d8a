#!/usr/bin/env python3
"""Bad input to the library alone, which a program has found by itself: what it is given, the one sentence, the
CUresult. Row by row of the first table of netaware/cli/bad_input.md.

usage: bad_input_library_test.py BUILD_DIRECTORY
"""

import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from bad_input import HEADING, NOBODY, Listener, RESULTS, ServerOfNobody, TableTest, TcpListener, closed_port, other_version, reachable_by_nobody, stale_socket, row
from product import CLIENT, Agent, Gateway, Server, environment, wait_for


# Prints the result of cuInit, asked twice: the sentence must come once.
INIT = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); print(cuda.cuInit(0))"
OUT_OF_MEMORY, UNAVAILABLE, NO_DEVICE, INVALID_IMAGE, NO_BINARY, INVALID_PTX, FILE_NOT_FOUND, MISMATCH, INVALID_DEVICE = 2, 46, 100, 200, 209, 218, 301, 803, 101
PTX = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() %b"


class Library(TableTest):
    """The same without `tessera run`: the program gets a CUresult, and stderr has one sentence."""

    heading = HEADING

    def cuda(self, result, sentence, server, code=INIT, before=None, user=None, **variables):
        env = environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server, **variables)
        python = sys.executable if user is None else "/usr/bin/python3"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=90, env=env, preexec_fn=before, user=user)
        self.assertEqual((done.stdout, done.returncode), (f"{result}\n", 0), done.stderr)
        if sentence is None:
            self.assertEqual(done.stderr, "")
        else:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertRegex(done.stderr, r"^tessera(\[\d+\])?: (error|warning): .*" + sentence)
        self.stands_in_its_row(RESULTS[result])

    @row("no server named")
    def test_no_server_named(self):
        self.cuda(NO_DEVICE, "TESSERA_SERVER is not set.*tessera run", None)

    @row("address with another scheme than `unix:`, `tcp:` or `tls:`; a malformed one")
    def test_unknown_scheme(self):
        self.cuda(NO_DEVICE, "gopher", "gopher://x")
        self.cuda(NO_DEVICE, "TESSERA_SERVER=unix: names no socket", "unix:")
        self.cuda(NO_DEVICE, "server has no known scheme", "server")

    @row("list of servers with an empty entry, a server twice, more than 8")
    def test_malformed_list(self):
        self.cuda(NO_DEVICE, "empty entry", "unix:/a,")
        self.cuda(NO_DEVICE, "twice", "unix:/a,unix:/a")

    @row("one server of a list that cannot be used", "no such socket; path longer than 107 bytes")
    def test_one_of_a_list(self):
        server = Server()
        self.addCleanup(server.stop)
        self.cuda(NO_DEVICE, "/nowhere/a.sock", server.url + ",unix:/nowhere/a.sock")

    @row("`tcp://` or `tls://` address")
    def test_address_of_another_host(self):
        self.cuda(NO_DEVICE, "nobody listens at tcp://127.0.0.1:1", "tcp://127.0.0.1:1")
        self.cuda(NO_DEVICE, "there is no certificate at|there is no private key at", "tls://127.0.0.1:1")

    @row("unknown host; nobody listens at the port; no way there")
    def test_agent_without_a_gateway(self):
        url = closed_port()
        agent = Agent(url)
        self.cuda(NO_DEVICE, "nobody listens at " + url, agent.url)
        self.assertEqual(agent.stop(), 0)

    @row("gateway of another version, or the server behind it")
    def test_server_of_another_version_behind_a_gateway(self):
        with Listener(other_version) as listener:
            gateway = Gateway(listener.path)
            agent = Agent(gateway.url)
            self.cuda(MISMATCH, "999.*same release", agent.url)
            self.assertEqual((agent.stop(), gateway.stop()), (0, 0))

    @row("gateway full")
    def test_gateway_is_full(self):
        server = Server()
        gateway = Gateway(server.path, "--max-sessions", "1")
        agent = Agent(gateway.url)
        holder = subprocess.Popen([sys.executable, "-c", INIT + "; import sys; sys.stdout.flush(); sys.stdin.read()"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=agent.url))
        self.assertEqual(holder.stdout.readline(), "0\n")
        self.cuda(UNAVAILABLE, "--max-sessions of tessera-gateway", agent.url)
        holder.communicate()
        self.assertEqual((agent.stop(), gateway.stop(), server.stop()), (0, 0, 0))

    @row("no such socket; path longer than 107 bytes")
    def test_no_socket(self):
        self.cuda(NO_DEVICE, "no socket /nonexistent/socket", "unix:/nonexistent/socket")
        self.cuda(NO_DEVICE, "takes at most 107", "unix:/" + "x" * 200)

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_file_that_is_no_socket(self):
        self.cuda(NO_DEVICE, "/etc/passwd is not a socket", "unix:/etc/passwd")

    @row("a server that another user runs, neither root nor this one")
    @unittest.skipUnless(reachable_by_nobody(), "needs to be root, and a build directory that others can read")
    def test_server_of_another_user(self):
        server = ServerOfNobody()
        self.cuda(NO_DEVICE, f"another user, {NOBODY},.*TESSERA_SERVER_USER={NOBODY}", server.url)
        self.cuda(NO_DEVICE, "another user", server.url, TESSERA_SERVER_USER="1")
        self.assertEqual(server.stop(), 0)

    @row("socket of another user")
    @unittest.skipUnless(reachable_by_nobody(), "needs to be root, and a build directory that others can read")
    def test_socket_of_another_user(self):
        server = Server()
        os.chmod(server.directory.name, 0o755)
        self.cuda(NO_DEVICE, "not allowed.*another user", server.url, user=NOBODY)
        self.assertEqual(server.stop(), 0)

    def through_an_agent(self, result, sentence, url, *options):
        agent = Agent(url, *options)
        self.cuda(result, sentence, agent.url)
        self.assertEqual(agent.stop(), 0)

    @row("address beyond this host without `--insecure`")
    def test_address_beyond_this_host(self):
        self.through_an_agent(NO_DEVICE, "neither encrypted.*--insecure", "tcp://192.0.2.1:1")

    @row("another program's port")
    def test_port_of_another_program(self):
        with TcpListener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as listener:
            self.through_an_agent(NO_DEVICE, "is no tessera-gateway", listener.url)

    @row("host or port that does not answer")
    def test_port_that_does_not_answer(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.through_an_agent(NO_DEVICE, "no answer from.*firewall", "tcp://127.0.0.1:%d" % silent.getsockname()[1])
        silent.close()

    @row("gateway of another version, or the server behind it")
    def test_gateway_of_another_version(self):
        with TcpListener(struct.pack("<IIII", 0x4B4E4C54, 99, 0, 0)) as listener:
            self.through_an_agent(MISMATCH, "link version 99, this side \\d+.*same release", listener.url)

    @row("gateway without a server behind it")
    def test_gateway_without_a_server(self):
        gateway = Gateway("/nonexistent/socket")
        self.through_an_agent(NO_DEVICE, "gateway has no server behind it", gateway.url)
        self.assertEqual(gateway.stop(), 0)

    @row("stale socket: its server has ended")
    def test_stale_socket(self):
        with tempfile.TemporaryDirectory() as directory:
            self.cuda(NO_DEVICE, "nobody listens", "unix:" + stale_socket(directory))

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_listener_that_is_no_tesserad(self):
        with Listener(lambda connection, message: connection.send(b"220 ready")) as listener:
            self.cuda(999, "another program", listener.url)

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_listener_that_hangs_up(self):
        with Listener(lambda connection, message: None) as listener:
            self.cuda(NO_DEVICE, "ended before the session began", listener.url)

    @row("server of another version")
    def test_server_of_another_version(self):
        with Listener(other_version) as listener:
            self.cuda(MISMATCH, "999.*same release", listener.url)

    @row("server full, or out of processes, descriptors, memory")
    def test_server_is_full(self):
        server = Server("--max-sessions", "1", "--start-wait", "1")
        holder = subprocess.Popen([sys.executable, "-c", INIT.replace("print(", "print(", 1) + "; import sys; sys.stdout.flush(); sys.stdin.read()"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server.url))
        self.assertEqual(holder.stdout.readline(), "0\n")
        self.cuda(UNAVAILABLE, "--max-sessions", server.url)
        holder.communicate()
        self.assertEqual(server.stop(), 0)

    @row("server that is ending")
    def test_server_is_ending(self):
        server = Server(grace=30)
        holder = subprocess.Popen([sys.executable, "-c", INIT + "; import sys; sys.stdout.flush(); sys.stdin.read()"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server.url))
        self.assertEqual(holder.stdout.readline(), "0\n")
        server.process.terminate()
        wait_for(lambda: "no new sessions" in server.words(), 10, "the end's begin")
        self.cuda(UNAVAILABLE, "the server is ending, 1 sessions left", server.url)
        holder.communicate()
        self.assertEqual(server.process.wait(20), 0)
        server.discard()

    def with_server(self, result, sentence, before=None, server_before=None, code=INIT, server_env=None, **variables):
        server = Server(before=server_before, env=server_env)
        try:
            self.assertIn("listening", server.ready)
            self.cuda(result, sentence, server.url, before=before, code=code, **variables)
        finally:
            self.assertEqual(server.stop(), 0)

    @row("too little address space (`ulimit -v`), on either side")
    def test_too_little_address_space_in_the_program(self):
        self.with_server(UNAVAILABLE, "ulimit -v", before=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33)))

    @row("too little address space (`ulimit -v`), on either side")
    def test_too_little_address_space_in_the_server(self):
        self.with_server(UNAVAILABLE, "ulimit -v", server_before=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33)))

    @row("too little shared memory (`ulimit -f`), on either side")
    def test_too_little_shared_memory_in_the_server(self):
        self.with_server(UNAVAILABLE, "ulimit -f", server_before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))

    @row("server full, or out of processes, descriptors, memory")
    def test_too_few_open_files_in_the_server(self):
        self.with_server(UNAVAILABLE, "cannot start a worker.*ulimit", server_before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)))

    @row("too little memory on the GPU")
    def test_too_little_memory_of_the_gpu(self):
        code = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); context = ctypes.c_void_p(); address = ctypes.c_uint64();"
                "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0;"
                "print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)))")
        self.with_server(OUT_OF_MEMORY, None, code=code, server_env=environment(TESSERA_EMULATOR_MEMORY_MIB="64"))

    @row("more managed memory than is free of the GPU")
    def test_managed_memory_is_not_paged(self):
        code = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); context = ctypes.c_void_p(); address = ctypes.c_uint64();"
                "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0;"
                "ask = lambda bytes: cuda.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(bytes), 1);"
                "assert ask(1 << 20) == 0 and ask(1 << 50) == 2; print(ask(1 << 30))")
        self.with_server(OUT_OF_MEMORY, "1125899906842624 bytes of managed memory.*natively", code=code, server_env=environment(TESSERA_EMULATOR_MEMORY_MIB="64"))

    @row("`CUDA_VISIBLE_DEVICES` longer than 1,024 bytes; another of the driver's variables longer than 4,096")
    def test_variables_that_are_too_long(self):
        self.with_server(NO_DEVICE, "CUDA_VISIBLE_DEVICES.*shorten", CUDA_VISIBLE_DEVICES="0," * 1000)
        self.with_server(NO_DEVICE, "CUDA_CACHE_PATH.*shorten", CUDA_CACHE_PATH="/x" * 3000)

    @row("`CUDA_VISIBLE_DEVICES` empty or negative")
    def test_no_device_wanted(self):
        for selection in ("", "-1"):
            self.with_server(NO_DEVICE, None, CUDA_VISIBLE_DEVICES=selection)

    @row("`CUDA_VISIBLE_DEVICES` that names no device of the server", "no driver, no device on the server's side")
    def test_no_device_named(self):
        for selection in ("7", "nonsense"):
            self.with_server(NO_DEVICE, f"CUDA_VISIBLE_DEVICES={selection} name", CUDA_VISIBLE_DEVICES=selection)

    @row("`CUDA_VISIBLE_DEVICES` that names a device twice")
    def test_a_device_named_twice(self):
        self.with_server(INVALID_DEVICE, None, CUDA_VISIBLE_DEVICES="0,0")

    def goes_on(self, sentence, **variables):
        server = Server()
        env = environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server.url, **variables)
        done = subprocess.run([sys.executable, "-c", INIT], capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"))
        self.assertRegex(done.stderr, f"^[^\n]*{sentence}[^\n]*\n$")
        self.stands_in_its_row("success")
        self.assertEqual(server.stop(), 0)

    @row("`TESSERA_LOG` with an unknown level")
    def test_unknown_log_level(self):
        self.goes_on("TESSERA_LOG=loud", TESSERA_LOG="loud")

    @row("`TESSERA_STATS` or `TESSERA_TRACE` with a file that cannot be written")
    def test_statistics_without_a_file(self):
        self.goes_on("/nonexistent/stats: No such file or directory; name", TESSERA_STATS="/nonexistent/stats")

    def load(self, result, sentence, image, name="cuModuleLoadData", then=""):
        code = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); context = ctypes.c_void_p(); module = ctypes.c_void_p(); kernel = ctypes.c_void_p();"
                "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0;"
                f"result = cuda.{name}(ctypes.byref(module), {image!r}); {then} print(result)")
        self.with_server(result, sentence, code=code)

    @row("code that is neither PTX nor machine code")
    def test_code_that_is_none(self):
        self.load(INVALID_IMAGE, "neither a fatbin nor a cubin nor ptx text", b"this is no code")
        self.load(INVALID_IMAGE, "neither a fatbin nor a cubin nor ptx text", b"/etc/passwd", name="cuModuleLoad")

    @row("PTX with a mistake")
    def test_ptx_with_a_mistake(self):
        self.load(INVALID_PTX, "ptx line 4: ';' is expected", PTX % b"{ .reg .u32 %r; add.u32 %r, %r ret; }")
        launch = "assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b'x') == 0; result = cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None);"
        self.load(INVALID_PTX, "ptx line 4: instruction 'bogus.u32' is not known", PTX % b"{ .reg .u32 %r; bogus.u32 %r; ret; }", then=launch)

    @row("code for another GPU alone")
    def test_code_for_another_gpu(self):
        self.load(NO_BINARY, "compute_900, none of which fits", (PTX % b"{ ret; }").replace(b"sm_70", b"sm_900"))

    @row("file of code that cannot be read")
    def test_file_of_code_that_cannot_be_read(self):
        for path in (b"/nonexistent", b"/etc"):
            self.load(FILE_NOT_FOUND, None, path, name="cuModuleLoad")


if __name__ == "__main__":
    unittest.main(verbosity=2)
