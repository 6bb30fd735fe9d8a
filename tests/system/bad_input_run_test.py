#!/usr/bin/env python3
"""Bad input to `tessera run`: what the user gives, the one sentence, the exit code. Row by row of the first table of netaware/cli/bad_input.md.

usage: bad_input_run_test.py BUILD_DIRECTORY
"""

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from bad_input import HEADING, NOBODY, Listener, ServerOfNobody, TableTest, TcpListener, closed_port, other_version, reachable_by_nobody, stale_socket, row
from product import BUILD, TESSERA, Gateway, Keys, Server, environment, program, wait_for


# A program of machine code alone: _exit(3).
STATIC = "void _start(void) { __asm__(\"syscall\" :: \"a\"(60), \"D\"(3)); }"


class Run(TableTest):
    """`tessera run` with something wrong."""

    heading = HEADING

    def tessera(self, code, sentence, *words, name="tessera: ", **options):
        options.setdefault("env", environment())
        self.check(subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=60, **options), code, sentence, name)

    def emulated(self, code, sentence, *words, **options):
        self.tessera(code, sentence, "run", "--quiet", "--driver", "emulator", "--", *words, **options)

    @row("unknown option or command, no program")
    def test_unknown_words(self):
        self.tessera(2, "no command 'stauts': the nearest is 'status': see 'tessera --help'", "stauts", "-o", "json")
        self.tessera(2, "no command 'rnu': the nearest is 'run'", "help", "rnu")
        self.tessera(2, "shwo.*: the nearest is 'show': see 'tessera keys --help'", "keys", "shwo")
        self.tessera(2, "--sever.*: the nearest is '--server': see 'tessera status --help'", "status", "--sever", "x")

    @row("unknown option or command, no program")
    def test_malformed_option(self):
        self.tessera(2, "no-such-option.*tessera run --help", "run", "--no-such-option", "--", "true")

    @row("unknown option or command, no program")
    def test_no_program(self):
        self.tessera(2, "program.*tessera run --help", "run")

    @row("unknown option or command, no program")
    def test_no_command(self):
        self.tessera(2, "tessera --help")

    @row("unknown option or command, no program")
    def test_unknown_driver(self):
        self.tessera(2, "quantum.*emulator", "run", "--driver", "quantum", "--", "true")

    @row("address with another scheme than `unix:`, `tcp:` or `tls:`; a malformed one")
    def test_unknown_scheme(self):
        self.tessera(71, "gopher://x.*unix:PATH.*tcp://HOST:PORT", "run", "--server", "gopher://x", "--", "true")
        self.tessera(71, "gopher://x", "run", "--", "true", env=environment(TESSERA_SERVER="gopher://x"))
        self.tessera(71, "'unix:' names no socket: write unix:PATH", "run", "--server", "unix:", "--", "true")

    @row("list of servers with an empty entry, a server twice, more than 8")
    def test_malformed_list(self):
        nine = ",".join(f"unix:/nowhere/{i}" for i in range(9))
        for servers, words in (("unix:/a,", "empty entry"), (",unix:/a", "empty entry"), ("unix:/a,unix:/a", "twice"), (nine, "at most 8")):
            self.tessera(71, words, "run", "--server", servers, "--", "true")

    @row("one server of a list that cannot be used", "no such socket; path longer than 107 bytes")
    def test_one_of_a_list(self):
        server = Server()
        self.addCleanup(server.stop)
        self.tessera(72, "/nowhere/a.sock", "run", "--server", server.url + ",unix:/nowhere/a.sock", "--", "true")

    @row("no such socket; path longer than 107 bytes")
    def test_no_socket(self):
        self.tessera(72, "no socket /nonexistent/socket.*tesserad --listen", "run", "--server", "unix:/nonexistent/socket", "--", "true")

    @row("no such socket; path longer than 107 bytes")
    def test_path_too_long(self):
        self.tessera(72, "107 bytes", "run", "--server", "unix:/" + "x" * 200, "--", "true")

    @row("stale socket: its server has ended")
    def test_stale_socket(self):
        with tempfile.TemporaryDirectory() as directory:
            self.tessera(72, "nobody listens.*start", "run", "--server", "unix:" + stale_socket(directory), "--", "true")

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_socket_of_another_program(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "stream.sock")
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            stream.bind(path)
            stream.listen()
            self.tessera(72, "another program", "run", "--server", "unix:" + path, "--", "true")
            stream.close()

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_file_that_is_no_socket(self):
        self.tessera(72, "/etc/passwd is not a socket: correct the path", "run", "--server", "unix:/etc/passwd", "--", "true")

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_listener_that_is_no_tesserad(self):
        with Listener(lambda connection, message: connection.send(b"220 ready")) as listener:
            self.tessera(72, "no tesserad", "run", "--server", listener.url, "--", "true")

    @row("another program's socket; one that does not answer; a file that is no socket")
    def test_listener_that_is_silent(self):
        with Listener(lambda connection, message: connection.recv(1)) as listener:
            self.tessera(72, "does not answer", "run", "--server", listener.url, "--", "true")

    @row("a server that another user runs, neither root nor this one", "gateway without a server behind it")
    @unittest.skipUnless(reachable_by_nobody(), "needs to be root, and a build directory that others can read")
    def test_server_of_another_user(self):
        server = ServerOfNobody()
        self.tessera(73, f"another user, {NOBODY},.*TESSERA_SERVER_USER={NOBODY}", "run", "--server", server.url, "--", "true")
        self.tessera(73, "TESSERA_SERVER_USER", "status", "--server", server.url)
        self.tessera(73, f"another user, {NOBODY},.*TESSERA_SERVER_USER={NOBODY}", "vgpu", "list", "--server", server.url)
        gateway = Gateway(server.url[len("unix:"):])  # neither is it a gateway's
        self.tessera(72, f"another user, {NOBODY}", "run", "--server", gateway.url, "--", "true")
        self.assertEqual(gateway.stop(), 0)
        for user in (str(NOBODY), "nobody", "any"):
            done = subprocess.run([TESSERA, "run", "--server", server.url, "--", program("count")], capture_output=True, text=True, timeout=60,
                                  env=environment(TESSERA_SERVER_USER=user))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1\n", ""))
        self.assertEqual(server.stop(), 0)

    @row("socket of another user")
    @unittest.skipUnless(reachable_by_nobody(), "needs to be root, and a build directory that others can read")
    def test_socket_of_another_user(self):
        server = Server()
        os.chmod(server.directory.name, 0o755)
        self.tessera(73, "not allowed.*another user", "run", "--server", server.url, "--", "true", user=NOBODY)
        self.assertEqual(server.stop(), 0)

    @row("server of another version")
    def test_server_of_another_version(self):
        with Listener(other_version) as listener:
            self.tessera(74, "999.*same release", "run", "--server", listener.url, "--", "true")

    # A server on another host.

    @row("address with another scheme than `unix:`, `tcp:` or `tls:`; a malformed one")
    def test_tcp_address_of_another_form(self):
        for address in ("tcp://host:", "tcp://host:port", "tcp://:1", "tcp://::1:1", "tcp://host:70000", "tls://host name"):
            self.tessera(71, address + "'.*tcp://HOST:PORT", "run", "--server", address, "--", "true")

    @row("unknown host; nobody listens at the port; no way there")
    def test_no_gateway(self):
        url = closed_port()
        self.tessera(72, "nobody listens at " + url + ".*tessera-gateway", "run", "--server", url, "--", "true")
        self.tessera(72, "nobody listens at " + url, "status", "--server", url)

    @row("unknown host; nobody listens at the port; no way there")
    def test_unknown_host(self):
        self.tessera(72, "host no-such-host.invalid.*is not known.*correct", "run", "--server", "tcp://no-such-host.invalid:1", "--insecure", "--", "true")

    @row("address beyond this host without `--insecure`")
    def test_address_beyond_this_host(self):
        self.tessera(73, "tcp://192.0.2.1:1.*neither encrypted.*--insecure", "run", "--server", "tcp://192.0.2.1:1", "--", "true")

    @row("another program's port")
    def test_port_of_another_program(self):
        with TcpListener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as listener:
            self.tessera(72, listener.url + " is no tessera-gateway", "run", "--server", listener.url, "--", "true")

    @row("host or port that does not answer")
    def test_port_that_does_not_answer(self):
        silent = socket.create_server(("127.0.0.1", 0))
        url = "tcp://127.0.0.1:%d" % silent.getsockname()[1]
        self.tessera(72, "no answer from " + url + ".*firewall", "run", "--server", url, "--", "true")
        silent.close()

    @row("`config.toml` with an unknown key, a value of another form, half written, or that may not be read")
    def test_files_of_settings(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "tessera/config.toml")
            os.mkdir(os.path.dirname(path))
            for text, why in (("gpu-sare = 1", "there is no key 'gpu-sare': the nearest is 'gpu-share'"), ("gpu-mem = 20", "which takes a text"),
                              ("gpu-mem = '20'", "a size with its unit"), ("wait = '5", "no closing quote"), ("gpus", "missing behind the key 'gpus'")):
                with open(path, "w") as file:
                    file.write(f"\n{text}\n")
                self.tessera(2, f"{path}, line 2: .*{why}", "run", "--", "true", env=environment(XDG_CONFIG_HOME=directory))
            os.unlink(path)
            os.mkdir(path)
            self.tessera(2, f"{path} is no ordinary file", "run", "--", "true", env=environment(XDG_CONFIG_HOME=directory))

    @row("`tls://` without a certificate, or with files that cannot be used")
    def test_no_certificate(self):
        with tempfile.TemporaryDirectory() as directory:
            self.tessera(73, f"no certificate at {directory}/tessera/certificate.pem.*tessera keys client", "run", "--server", "tls://127.0.0.1:1", "--",
                         "true", env=environment(XDG_CONFIG_HOME=directory))
            keys = Keys()
            options = keys.options("client", "alice")
            os.chmod(options[3], 0o644)
            self.tessera(73, f"can be read by others: chmod 600 {options[3]}", "run", "--server", "tls://127.0.0.1:1", *options, "--", "true")

    @row("a certificate that the other side does not accept")
    def test_certificates_that_are_not_accepted(self):
        keys = Keys()
        gateway = Gateway("/nonexistent", *keys.options("server", "localhost"), "--allow", "bob", listen="tls://127.0.0.1:0")
        options = keys.options("client", "alice")
        self.tessera(73, "is for localhost and not for 127.0.0.1.*tessera keys server 127.0.0.1", "run", "--server", gateway.url, *options, "--", "true")
        url = gateway.url.replace("127.0.0.1", "localhost")
        self.tessera(73, "does not allow 'alice'.*--allow alice", "run", "--server", url, *options, "--", "true")
        self.assertEqual(gateway.stop(), 0)

    @row("`tcp://` at a gateway of `tls://`, or the reverse")
    def test_the_other_scheme(self):
        keys = Keys()
        options = keys.options("client", "alice")
        gateway = Gateway("/nonexistent", *keys.options("server", "127.0.0.1"), listen="tls://127.0.0.1:0")
        self.tessera(72, "speaks TLS: write tls://", "run", "--server", gateway.url.replace("tls", "tcp"), "--", "true")
        self.assertEqual(gateway.stop(), 0)
        gateway = Gateway("/nonexistent")
        self.tessera(72, "speaks plain TCP.*write tcp://", "run", "--server", gateway.url.replace("tcp", "tls"), *options, "--", "true")
        self.assertEqual(gateway.stop(), 0)

    @row("gateway of another version, or the server behind it")
    def test_gateway_of_another_version(self):
        with TcpListener(struct.pack("<IIII", 0x4B4E4C54, 99, 0, 0)) as listener:
            self.tessera(74, "link version 99, this side \\d+.*same release", "run", "--server", listener.url, "--", "true")

    @row("gateway of another version, or the server behind it")
    def test_server_of_another_version_behind_a_gateway(self):
        with Listener(other_version) as listener:
            gateway = Gateway(listener.path)
            self.tessera(74, "999.*same release", "run", "--server", gateway.url, "--", "true")
            self.assertEqual(gateway.stop(), 0)

    @row("gateway without a server behind it")
    def test_gateway_without_a_server(self):
        gateway = Gateway("/nonexistent/socket")
        self.tessera(72, "gateway has no server behind it.*no socket /nonexistent/socket", "run", "--server", gateway.url, "--", "true")
        self.assertEqual(gateway.stop(), 0)

    @row("`tessera-agent` missing")
    def test_agent_missing(self):
        prefix = self.copied("bin/tesserad", "lib/client/libcuda.so.1")
        result = subprocess.run([os.path.join(prefix, "bin/tessera"), "run", "--server", "tcp://127.0.0.1:1", "--", "true"], capture_output=True,
                                text=True, timeout=60, env=environment())
        self.check(result, 76, "tessera-agent is missing.*install it again", "tessera: ")

    @row("server full, or out of processes, descriptors, memory")
    def test_server_is_full(self):
        server = Server("--max-sessions", "1", "--start-wait", "1")
        self.addCleanup(server.stop)
        run = lambda *words: ("run", "--quiet", "--server", server.url, *words)
        holder = subprocess.Popen([TESSERA, *run("--", program("count"), "wait")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=environment())
        self.addCleanup(holder.communicate)
        self.assertEqual(holder.stdout.readline(), "1\n")
        sentence = "the server has 1 sessions, its limit: raise --max-sessions of tesserad"
        self.tessera(83, sentence, *run("--", "sh", "-c", "echo it began >&2"))
        gateway = Gateway(server.path)
        self.addCleanup(gateway.stop)
        self.tessera(83, sentence, "run", "--server", gateway.url, "--", "true")
        self.tessera(83, f"{server.url}: {sentence}", "run", "--server", server.url + ",unix:/nowhere", "--", "true")

        # `--wait` finds a place as soon as there is one.
        waits = subprocess.Popen([TESSERA, *run("--wait", "60s", "--", program("count"))], stdout=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(waits.kill)
        time.sleep(1.5)
        self.assertIsNone(waits.poll())
        holder.communicate()
        self.assertEqual((waits.communicate(timeout=30)[0], waits.returncode), ("1\n", 0))

    @row("`tessera sessions end` of something that is no number, of several servers, of a session that is another's, ended or never was",
         "server that is ending")
    def test_sessions_end(self):
        server = Server(grace=30)
        self.addCleanup(server.stop)
        end = lambda *words: ("sessions", "end", *words, "--server", server.url)
        self.tessera(2, "'x' is no number of a session: 'tessera top' shows them", *end("x"))
        self.tessera(2, "several: name one with --server", "sessions", "end", "1", "--server", server.url + ",unix:/nowhere")
        self.tessera(2, "--grace: 'soon' is no time", *end("1", "--grace", "soon"))
        self.tessera(2, "--grace: '25h' is no time", *end("1", "--grace", "25h"))
        self.tessera(81, "there is no session 4711 of yours", *end("4711"))
        holder = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("count"), "wait"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(holder.communicate)
        self.assertEqual(holder.stdout.readline(), "1\n")
        server.process.terminate()
        wait_for(lambda: "no new sessions" in server.words(), 10, "the end's begin")
        self.tessera(72, "the server is ending, 1 sessions left", "run", "--server", server.url, "--", "true")
        told = subprocess.run([TESSERA, "status", "--server", server.url], capture_output=True, text=True, timeout=60, env=environment())
        self.assertIn("is ending, 1 sessions left", told.stdout)

    @row("no driver, no device on the server's side")
    def test_no_device(self):
        self.tessera(75, "no device.*nonexistent", "run", "--driver", "/nonexistent/libcuda.so.1", "--", "true", name="tesserad: ")

    @row("`CUDA_VISIBLE_DEVICES` empty or negative", "`CUDA_VISIBLE_DEVICES` that names no device of the server",
         "`CUDA_VISIBLE_DEVICES` that names a device twice")
    def test_a_program_that_sees_no_device_runs(self):
        for selection in ("", "-1", "7", "0,0"):
            done = subprocess.run([TESSERA, "run", "--quiet", "--driver", "emulator", "--", "sh", "-c", "echo ran; exit 5"], capture_output=True,
                                  text=True, timeout=60, env=environment(CUDA_VISIBLE_DEVICES=selection))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "ran\n", ""), selection)

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

    @row("`libcuda.so.1` of Tessera, or tesserad, missing or damaged")
    def test_client_library_missing(self):
        self.run_copy(self.copied("bin/tesserad"), 76, "libcuda.so.1 is missing.*install it again")

    @row("`libcuda.so.1` of Tessera, or tesserad, missing or damaged")
    def test_server_program_missing(self):
        self.run_copy(self.copied("lib/client/libcuda.so.1"), 76, "tesserad is missing.*install it again")

    @row("`libcuda.so.1` of Tessera, or tesserad, missing or damaged")
    def test_server_program_damaged(self):
        prefix = self.copied("bin/tesserad", "lib/client/libcuda.so.1")
        with open(os.path.join(prefix, "bin/tesserad"), "wb") as damaged:
            damaged.write(b"\x7fELF")
        self.run_copy(prefix, 76, "damaged")

    @row("private server crashes or hangs")
    def test_server_program_crashes(self):
        prefix = self.copied("bin/tesserad", "lib/client/libcuda.so.1")
        with open(os.path.join(prefix, "bin/tesserad"), "w") as script:
            script.write("#!/bin/sh\nkill -SEGV $$\n")
        self.run_copy(prefix, 77, "signal 11")

    @row("program does not exist, or its interpreter")
    def test_program_not_found(self):
        self.emulated(127, "/nonexistent/program", "/nonexistent/program")
        self.emulated(127, "no-such-program-anywhere.*PATH", "no-such-program-anywhere")

    @row("program that the library cannot get into: 32-bit, linked statically, set-user-ID of another user, with capabilities")
    def test_program_out_of_reach(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "program")
            subprocess.run(["gcc", "-x", "c", "-static", "-nostdlib", "-o", path, "-"], input=STATIC, text=True, check=True)
            run = ("run", "--driver", "emulator", "--", path)
            done = subprocess.run([TESSERA, *run], capture_output=True, text=True, timeout=60, env=environment())
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"tessera: this program gets no GPU from here: {path} is linked statically: it loads no libraries; link it", done.stderr)
            done = subprocess.run([TESSERA, "run", "-q", *run[1:]], capture_output=True, text=True, timeout=60, env=environment())
            self.assertEqual((done.returncode, done.stderr), (3, ""))

    @row("program is not executable, a directory, or for another machine")
    def test_program_not_executable(self):
        self.emulated(126, "/etc/passwd.*chmod", "/etc/passwd")
        self.emulated(126, "/etc is a directory", "/etc")
        with tempfile.NamedTemporaryFile(delete=False) as other_machine:
            self.addCleanup(os.unlink, other_machine.name)
            with open(TESSERA, "rb") as ours:
                header = bytearray(ours.read(4096))
            header[18] = 0xb7  # e_machine: AArch64
            other_machine.write(header)
        os.chmod(other_machine.name, 0o755)
        self.emulated(126, "for this machine", other_machine.name)

    @row("program does not exist, or its interpreter")
    def test_program_without_its_interpreter(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script")
            with open(script, "w") as file:
                file.write("#!/nonexistent/interpreter\n")
            os.chmod(script, 0o755)
            self.emulated(127, "interpreter", script)


if __name__ == "__main__":
    unittest.main(verbosity=2)
