#!/usr/bin/env python3
"""Bad input: what the user gives, the one sentence, the exit code. The tables are those of netaware/cli/README.md.

usage: bad_input_test.py BUILD_DIRECTORY
"""

import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from product import AGENT, BUILD, CLIENT, DAEMON, GATEWAY, TESSERA, Agent, Gateway, Server, environment

MAGIC = 0x41525354
HELLO, REFUSAL, QUERY, REPORT = 1, 3, 7, 8
NOBODY = 65534


class Listener:
    """A socket at which `answer(connection, message)` plays the server."""

    def __init__(self, answer):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "server.sock")
        self.url = "unix:" + self.path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen(8)
        self.answer = answer
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.answer(connection, connection.recv(200000))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        self.directory.cleanup()


def other_version(connection, message):
    """A server of wire version 999: a report of its own, or the refusal of a hello."""
    if struct.unpack_from("<II", message)[1] == QUERY:
        connection.send(struct.pack("<IIIQ", MAGIC, REPORT, 999, 1))
    else:
        sentence = b"the client speaks another wire version than 999: install the same release of tessera on both sides"
        connection.send(struct.pack("<IIII", MAGIC, REFUSAL, 5, len(sentence)) + sentence)


class TcpListener:
    """A port of this host that answers what it is told with `words`, then hangs up."""

    def __init__(self, words):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "tcp://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.words = words
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(100)
                connection.sendall(self.words)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


def closed_port():
    """The address of a port at which nobody listens."""
    with TcpListener(b"") as listener:
        return listener.url


def stale_socket(directory):
    path = os.path.join(directory, "stale.sock")
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stale.bind(path)
    stale.close()
    return path


def reachable_by_nobody():
    """Whether another user may start the programs of the build directory."""
    try:
        return os.geteuid() == 0 and subprocess.run([TESSERA, "--version"], user=NOBODY, capture_output=True).returncode == 0
    except OSError:
        return False


class TableTest(unittest.TestCase):
    def check(self, result, code, sentence, name):
        self.assertEqual(result.returncode, code, result.stderr)
        ours = [line for line in result.stderr.splitlines() if line.startswith(name)]
        self.assertEqual(len(ours), 1, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(ours[0], sentence)


class Run(TableTest):
    """`tessera run` with something wrong."""

    def tessera(self, code, sentence, *words, name="tessera: ", **options):
        options.setdefault("env", environment())
        self.check(subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=60, **options), code, sentence, name)

    def emulated(self, code, sentence, *words, **options):
        self.tessera(code, sentence, "run", "--quiet", "--driver", "emulator", "--", *words, **options)

    def test_malformed_option(self):
        self.tessera(2, "no-such-option.*tessera run --help", "run", "--no-such-option", "--", "true")

    def test_no_program(self):
        self.tessera(2, "program.*tessera run --help", "run")

    def test_no_command(self):
        self.tessera(2, "tessera --help")

    def test_unknown_driver(self):
        self.tessera(2, "quantum.*emulator", "run", "--driver", "quantum", "--", "true")

    def test_unknown_scheme(self):
        self.tessera(71, "gopher://x.*unix:PATH.*tcp://HOST:PORT", "run", "--server", "gopher://x", "--", "true")
        self.tessera(71, "gopher://x", "run", "--", "true", env=environment(TESSERA_SERVER="gopher://x"))

    def test_no_socket(self):
        self.tessera(72, "no socket /nonexistent/socket.*tesserad --listen", "run", "--server", "unix:/nonexistent/socket", "--", "true")

    def test_path_too_long(self):
        self.tessera(72, "107 bytes", "run", "--server", "unix:/" + "x" * 200, "--", "true")

    def test_stale_socket(self):
        with tempfile.TemporaryDirectory() as directory:
            self.tessera(72, "nobody listens.*start", "run", "--server", "unix:" + stale_socket(directory), "--", "true")

    def test_socket_of_another_program(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "stream.sock")
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            stream.bind(path)
            stream.listen()
            self.tessera(72, "another program", "run", "--server", "unix:" + path, "--", "true")
            stream.close()

    def test_listener_that_is_no_tesserad(self):
        with Listener(lambda connection, message: connection.send(b"220 ready")) as listener:
            self.tessera(72, "no tesserad", "run", "--server", listener.url, "--", "true")

    def test_listener_that_is_silent(self):
        with Listener(lambda connection, message: connection.recv(1)) as listener:
            self.tessera(72, "does not answer", "run", "--server", listener.url, "--", "true")

    @unittest.skipUnless(reachable_by_nobody(), "needs to be root, and a build directory that others can read")
    def test_socket_of_another_user(self):
        server = Server()
        os.chmod(server.directory.name, 0o755)
        self.tessera(73, "not allowed.*another user", "run", "--server", server.url, "--", "true", user=NOBODY)
        self.assertEqual(server.stop(), 0)

    def test_server_of_another_version(self):
        with Listener(other_version) as listener:
            self.tessera(74, "999.*same release", "run", "--server", listener.url, "--", "true")

    # A server on another host.

    def test_tcp_address_of_another_form(self):
        for address in ("tcp://host", "tcp://host:port", "tcp://:1", "tcp://::1:1", "tcp://host:70000"):
            self.tessera(71, address + "'.*tcp://HOST:PORT", "run", "--server", address, "--", "true")

    def test_no_gateway(self):
        url = closed_port()
        self.tessera(72, "nobody listens at " + url + ".*tessera-gateway", "run", "--server", url, "--", "true")
        self.tessera(72, "nobody listens at " + url, "status", "--server", url)

    def test_unknown_host(self):
        self.tessera(72, "host no-such-host.invalid.*is not known.*correct", "run", "--server", "tcp://no-such-host.invalid:1", "--insecure", "--", "true")

    def test_address_beyond_this_host(self):
        self.tessera(73, "tcp://192.0.2.1:1.*neither encrypted.*--insecure", "run", "--server", "tcp://192.0.2.1:1", "--", "true")

    def test_port_of_another_program(self):
        with TcpListener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as listener:
            self.tessera(72, listener.url + " is no tessera-gateway", "run", "--server", listener.url, "--", "true")

    def test_port_that_does_not_answer(self):
        silent = socket.create_server(("127.0.0.1", 0))
        url = "tcp://127.0.0.1:%d" % silent.getsockname()[1]
        self.tessera(72, "no answer from " + url + ".*firewall", "run", "--server", url, "--", "true")
        silent.close()

    def test_gateway_of_another_version(self):
        with TcpListener(struct.pack("<IIII", 0x4B4E4C54, 99, 0, 0)) as listener:
            self.tessera(74, "link version 99, this side 1.*same release", "run", "--server", listener.url, "--", "true")

    def test_server_of_another_version_behind_a_gateway(self):
        with Listener(other_version) as listener:
            gateway = Gateway(listener.path)
            self.tessera(74, "999.*same release", "run", "--server", gateway.url, "--", "true")
            self.assertEqual(gateway.stop(), 0)

    def test_gateway_without_a_server(self):
        gateway = Gateway("/nonexistent/socket")
        self.tessera(72, "gateway has no server behind it.*no socket /nonexistent/socket", "run", "--server", gateway.url, "--", "true")
        self.assertEqual(gateway.stop(), 0)

    def test_agent_missing(self):
        prefix = self.copied("bin/tesserad", "lib/client/libcuda.so.1")
        result = subprocess.run([os.path.join(prefix, "bin/tessera"), "run", "--server", "tcp://127.0.0.1:1", "--", "true"], capture_output=True,
                                text=True, timeout=60, env=environment())
        self.check(result, 76, "tessera-agent is missing.*install it again", "tessera: ")

    def test_no_device(self):
        self.tessera(75, "no device.*nonexistent", "run", "--driver", "/nonexistent/libcuda.so.1", "--", "true", name="tesserad: ")
        self.emulated(75, "no device", "true", name="tesserad: ", env=environment(CUDA_VISIBLE_DEVICES="-1"))

    def copied(self, *parts):
        """An installation with some of its parts."""
        prefix = tempfile.TemporaryDirectory()
        self.addCleanup(prefix.cleanup)
        for part in ("bin/tessera", *parts):
            os.makedirs(os.path.dirname(os.path.join(prefix.name, part)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, part), os.path.join(prefix.name, part))
        return prefix.name

    def run_copy(self, prefix, code, sentence):
        result = subprocess.run([os.path.join(prefix, "bin/tessera"), "run", "--", "true"], capture_output=True, text=True,
                                timeout=60, env=environment())
        self.check(result, code, sentence, "tessera: ")

    def test_client_library_missing(self):
        self.run_copy(self.copied("bin/tesserad"), 76, "libcuda.so.1 is missing.*install it again")

    def test_server_program_missing(self):
        self.run_copy(self.copied("lib/client/libcuda.so.1"), 76, "tesserad is missing.*install it again")

    def test_server_program_damaged(self):
        prefix = self.copied("bin/tesserad", "lib/client/libcuda.so.1")
        with open(os.path.join(prefix, "bin/tesserad"), "wb") as damaged:
            damaged.write(b"\x7fELF")
        self.run_copy(prefix, 76, "damaged")

    def test_server_program_crashes(self):
        prefix = self.copied("bin/tesserad", "lib/client/libcuda.so.1")
        with open(os.path.join(prefix, "bin/tesserad"), "w") as script:
            script.write("#!/bin/sh\nkill -SEGV $$\n")
        self.run_copy(prefix, 77, "signal 11")

    def test_program_not_found(self):
        self.emulated(127, "/nonexistent/program", "/nonexistent/program")
        self.emulated(127, "no-such-program-anywhere.*PATH", "no-such-program-anywhere")

    def test_program_not_executable(self):
        self.emulated(126, "/etc/passwd.*chmod", "/etc/passwd")
        self.emulated(126, "/etc ", "/etc")

    def test_program_without_its_interpreter(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script")
            with open(script, "w") as file:
                file.write("#!/nonexistent/interpreter\n")
            os.chmod(script, 0o755)
            self.emulated(127, "interpreter", script)


class Daemon(TableTest):
    """`tesserad` with something wrong."""

    def tesserad(self, code, sentence, *words, **options):
        result = subprocess.run([DAEMON, *words], capture_output=True, text=True, timeout=60, env=environment(), **options)
        self.check(result, code, sentence, "tesserad: ")
        self.assertEqual(result.stdout, "")

    def test_rows(self):
        with tempfile.TemporaryDirectory() as directory:
            url = f"unix:{directory}/socket"
            self.tesserad(2, "--listen.*required")
            self.tesserad(2, "no-such-option", "--listen", url, "--no-such-option")
            self.tesserad(2, "loud", "--listen", url, "--log", "loud")
            self.tesserad(2, "tcp:1.*unix:PATH", "--listen", "tcp:1")
            self.tesserad(2, "tcp://x.*tcp://HOST:PORT", "--listen", url, "--listen", "tcp://x")
            self.tesserad(2, "unix:PATH is required", "--listen", "tcp://127.0.0.1:0")
            self.tesserad(2, "one --listen unix:PATH", "--listen", url, "--listen", "unix:/tmp/x")
            self.tesserad(3, "missing.so", "--listen", url, "--driver", f"{directory}/missing.so")
            self.tesserad(3, "client library", "--listen", url, "--driver", f"{CLIENT}/libcuda.so.1")
            self.tesserad(4, "107 bytes", "--listen", "unix:/" + "x" * 200, "--driver", "emulator")
            self.tesserad(4, "/nonexistent/socket", "--listen", "unix:/nonexistent/socket", "--driver", "emulator")
            self.tesserad(4, "not a socket", "--listen", "unix:/etc/passwd", "--driver", "emulator")

    def test_address_in_use(self):
        with tempfile.TemporaryDirectory() as directory, TcpListener(b"") as listener:
            result = subprocess.run([DAEMON, "--listen", f"unix:{directory}/socket", "--listen", listener.url, "--driver", "emulator"],
                                    capture_output=True, text=True, timeout=60, env=environment())
            self.check(result, 4, "somebody listens on " + listener.url, "tessera-gateway: ")

    def test_socket_in_use(self):
        server = Server()
        self.tesserad(4, "another server listens", "--listen", server.url, "--driver", "emulator")
        self.assertEqual(server.stop(), 0)


class AgentAndGateway(TableTest):
    """`tessera-agent` and `tessera-gateway` with something wrong."""

    def gateway(self, code, sentence, *words):
        result = subprocess.run([GATEWAY, *words], capture_output=True, text=True, timeout=60, env=environment())
        self.check(result, code, sentence, "tessera-gateway: ")
        self.assertEqual(result.stdout, "")

    def agent(self, code, sentence, *words):
        result = subprocess.run([AGENT, *words], capture_output=True, text=True, timeout=60, env=environment())
        self.check(result, code, sentence, "tessera-agent: ")
        self.assertEqual(result.stdout, "")

    def test_gateway_rows(self):
        here, server = ("--listen", "tcp://127.0.0.1:0"), ("--server", "unix:/x")
        self.gateway(2, "--listen.*required", *server)
        self.gateway(2, "--server.*required", *here)
        self.gateway(2, "no-such-option", *here, *server, "--no-such-option")
        self.gateway(2, "loud", *here, *server, "--log", "loud")
        self.gateway(2, "tcp://HOST:PORT", "--listen", "unix:/x", *server)
        self.gateway(2, "unix:PATH", *here, "--server", "tcp://h:1")
        self.gateway(4, "neither encrypted.*--insecure", "--listen", "tcp://0.0.0.0:0", *server)
        self.gateway(4, "no address of this host", "--listen", "tcp://192.0.2.1:0", *server, "--insecure")
        with TcpListener(b"") as listener:
            self.gateway(4, "somebody listens on " + listener.url, "--listen", listener.url, *server)

    def test_agent_rows(self):
        gateway = ("--server", "tcp://127.0.0.1:1")
        self.agent(2, "--listen.*required", *gateway)
        self.agent(2, "--server.*required", "--listen", "unix:/tmp/x")
        self.agent(2, "loud", "--listen", "unix:/tmp/x", *gateway, "--log", "loud")
        self.agent(2, "tcp://HOST:PORT", "--listen", "unix:/tmp/x", "--server", "unix:/y")
        self.agent(2, "unix:PATH", "--listen", "tcp://127.0.0.1:1", *gateway)
        self.agent(4, "/nonexistent/socket", "--listen", "unix:/nonexistent/socket", *gateway)

    def test_help_and_version(self):
        for one in (GATEWAY, AGENT):
            for word in ("--help", "--version"):
                done = subprocess.run([one, word], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(os.path.basename(one), done.stdout)


# Prints the result of cuInit, asked twice: the sentence must come once.
INIT = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); print(cuda.cuInit(0))"
OUT_OF_MEMORY, NO_DEVICE, UNAVAILABLE, MISMATCH = 2, 100, 46, 803


class Library(TableTest):
    """The same without `tessera run`: the program gets a CUresult, and stderr has one sentence."""

    def cuda(self, result, sentence, server, code=INIT, before=None, **variables):
        env = environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server, **variables)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, env=env, preexec_fn=before)
        self.assertEqual((done.stdout, done.returncode), (f"{result}\n", 0), done.stderr)
        if sentence is None:
            self.assertEqual(done.stderr, "")
        else:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertRegex(done.stderr, r"^tessera\[\d+\]: error: .*" + sentence)

    def test_no_server_named(self):
        self.cuda(NO_DEVICE, "TESSERA_SERVER is not set.*tessera run", None)

    def test_unknown_scheme(self):
        self.cuda(NO_DEVICE, "gopher", "gopher://x")

    def test_address_of_another_host(self):
        self.cuda(NO_DEVICE, "tcp://127.0.0.1:1.*tessera run --server tcp://127.0.0.1:1.*tessera-agent", "tcp://127.0.0.1:1")

    def test_agent_without_a_gateway(self):
        url = closed_port()
        agent = Agent(url)
        self.cuda(NO_DEVICE, "nobody listens at " + url, agent.url)
        self.assertEqual(agent.stop(), 0)

    def test_server_of_another_version_behind_a_gateway(self):
        with Listener(other_version) as listener:
            gateway = Gateway(listener.path)
            agent = Agent(gateway.url)
            self.cuda(MISMATCH, "999.*same release", agent.url)
            self.assertEqual((agent.stop(), gateway.stop()), (0, 0))

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

    def test_no_socket(self):
        self.cuda(NO_DEVICE, "no socket /nonexistent/socket", "unix:/nonexistent/socket")

    def test_stale_socket(self):
        with tempfile.TemporaryDirectory() as directory:
            self.cuda(NO_DEVICE, "nobody listens", "unix:" + stale_socket(directory))

    def test_listener_that_is_no_tesserad(self):
        with Listener(lambda connection, message: connection.send(b"220 ready")) as listener:
            self.cuda(999, "another program", listener.url)

    def test_listener_that_hangs_up(self):
        with Listener(lambda connection, message: None) as listener:
            self.cuda(NO_DEVICE, "ended before the session began", listener.url)

    def test_server_of_another_version(self):
        with Listener(other_version) as listener:
            self.cuda(MISMATCH, "999.*same release", listener.url)

    def test_server_is_full(self):
        server = Server("--max-sessions", "1")
        holder = subprocess.Popen([sys.executable, "-c", INIT.replace("print(", "print(", 1) + "; import sys; sys.stdout.flush(); sys.stdin.read()"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server.url))
        self.assertEqual(holder.stdout.readline(), "0\n")
        self.cuda(UNAVAILABLE, "--max-sessions", server.url)
        holder.communicate()
        self.assertEqual(server.stop(), 0)

    def with_server(self, result, sentence, before=None, server_before=None, code=INIT, server_env=None, **variables):
        server = Server(before=server_before, env=server_env)
        try:
            self.assertIn("listening", server.ready)
            self.cuda(result, sentence, server.url, before=before, code=code, **variables)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_too_little_address_space_in_the_program(self):
        self.with_server(UNAVAILABLE, "ulimit -v", before=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33)))

    def test_too_little_address_space_in_the_server(self):
        self.with_server(UNAVAILABLE, "ulimit -v", server_before=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33)))

    def test_too_little_shared_memory_in_the_server(self):
        self.with_server(UNAVAILABLE, "ulimit -f", server_before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))

    def test_too_few_open_files_in_the_server(self):
        self.with_server(UNAVAILABLE, "cannot start a worker.*ulimit", server_before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)))

    def test_too_little_memory_of_the_gpu(self):
        code = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); context = ctypes.c_void_p(); address = ctypes.c_uint64();"
                "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0;"
                "print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)))")
        self.with_server(OUT_OF_MEMORY, None, code=code, server_env=environment(TESSERA_EMULATOR_MEMORY_MIB="64"))

    def test_a_list_of_devices_that_is_too_long(self):
        self.with_server(NO_DEVICE, "CUDA_VISIBLE_DEVICES.*shorten", CUDA_VISIBLE_DEVICES="0," * 1000)

    def test_no_device_selected(self):
        self.with_server(NO_DEVICE, None, CUDA_VISIBLE_DEVICES="")

    def test_unknown_log_level(self):
        server = Server()
        env = environment(LD_LIBRARY_PATH=CLIENT, TESSERA_SERVER=server.url, TESSERA_LOG="loud")
        done = subprocess.run([sys.executable, "-c", INIT], capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual(done.stdout, "0\n")
        self.assertRegex(done.stderr, "^[^\n]*TESSERA_LOG=loud[^\n]*\n$")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
