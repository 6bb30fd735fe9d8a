#!/usr/bin/env python3
"""Bad input to the programs that serve. Row by row of the table "Bad input to the services" of netaware/cli/bad_input.md.

usage: bad_input_services_test.py BUILD_DIRECTORY
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from bad_input import NOBODY, TableTest, TcpListener, check_rows, reachable_by_nobody, row
from product import AGENT, BUILD, CLIENT, DAEMON, GATEWAY, HAS_CONTROL_API, TESSERA, Agent, Gateway, Keys, Part, Server, environment, wait_for

HEADING = "Bad input to the services"
PLACER = os.path.join(BUILD, "bin/tessera-placer")
TCP = "tcp://127.0.0.1:0"


class Services(TableTest):
    heading = HEADING

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.url = f"unix:{self.directory.name}/socket"

    def ends(self, program, code, sentence, *words, says=None, **variables):
        """The program ends with this code, and with a sentence of `says`, or its own, on stderr."""
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, env=environment(**variables))
        self.check(done, code, sentence, (says or os.path.basename(program)) + ": ")
        self.assertEqual(done.stdout, "")

    def check_read_only_store(self):
        """One that was written before, on a file system that is mounted for reading: root writes everywhere else."""
        where = f"{self.directory.name}/read_only"
        os.mkdir(where)
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            return print("\nSKIPPED: no namespace of mounts here, a read-only store was not tried", file=sys.stderr, flush=True)
        words = ["--listen", self.url, "--store", f"sqlite:{where}/placer.db"]
        self.assertEqual(Part(PLACER, *words).stop(), 0)
        script = f'mount --bind {where} {where} && mount -o remount,bind,ro {where} && exec "$@"'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", PLACER, *words], capture_output=True, text=True, timeout=60, env=environment())
        self.check(done, 4, "placer.db: .*Read-only file system", "tessera-placer: ")

    def tesserad(self, code, sentence, *words, **more):
        self.ends(DAEMON, code, sentence, "--listen", self.url, "--driver", "emulator", *words, **more)

    def installation(self, *parts):
        """A tesserad with these parts of the installation alone."""
        for part in ("bin/tesserad", *parts):
            os.makedirs(os.path.dirname(os.path.join(self.directory.name, part)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, part), os.path.join(self.directory.name, part))
        return os.path.join(self.directory.name, "bin/tesserad")

    # Of bounds CLI11 2.3 says "1 to 9", and 2.4 "[1 - 9]".
    @row("any: unknown option or word; a value that an option does not take")
    def test_words_that_nobody_knows(self):
        for program in (DAEMON, AGENT, GATEWAY):
            see = f"See {os.path.basename(program)} --help"
            self.ends(program, 2, "no-such-option.*" + see, "--no-such-option")
            self.ends(program, 2, "expected.*word.*" + see, "word")
            self.ends(program, 2, "debug, info.*'loud'.*" + see, "--log", "loud")
            self.ends(program, 2, "hello-timeout.*1 (to|-) 3600.*" + see, "--hello-timeout", "0")
            self.ends(program, 2, "bash.*'tcsh'.*" + see, "--completion", "tcsh")
        self.tesserad(2, "--sandbox takes.*'perhaps'", "--sandbox", "perhaps")
        self.tesserad(2, "--worker-root takes.*'none'", "--worker-root", "none")
        self.tesserad(2, "--audit takes.*'kill'", "--audit", "kill")
        self.tesserad(2, "--audit end need", "--audit", "end", "--no-vgpus")
        self.tesserad(2, "no group 'nobodies-group'", "--socket-group", "nobodies-group")
        for name in ("no-such-user", "uid:x", "name:", "anonymous"):
            self.tesserad(2, f"no user '{name}'", "--admin", name)
        for mode in ("no", "60", "1777", "0466", "0698", "-1"):
            self.tesserad(2, "--socket-mode takes", f"--socket-mode={mode}")
        self.tesserad(2, "'65534'.*FIRST-LAST", "--worker-uids", "65534")
        self.tesserad(2, "nobody's", "--worker-uids", "65000-66000")
        self.tesserad(2, "--grace.*long", "--grace", "long")
        for program in (DAEMON, GATEWAY):
            self.ends(program, 2, "--max-sessions.*1 (to|-) 4096", "--max-sessions", "0")

    # tesserad.

    @row("tesserad: one `--listen` twice, an address of another form")
    def test_addresses_of_tesserad(self):
        self.ends(DAEMON, 2, "tcp:1.*unix:PATH", "--listen", "tcp:1")
        self.ends(DAEMON, 2, "'unix:'.*unix:PATH", "--listen", "unix:")
        self.tesserad(2, "tcp://x:y.*tcp://HOST:PORT", "--listen", "tcp://x:y")
        self.tesserad(2, "names unix:/tmp/x twice", "--listen", "unix:/tmp/x", "--listen", "/tmp/x")
        self.tesserad(2, "names tls://gpu7:4180 twice", "--listen", "gpu7", "--listen", "tls://gpu7:4180")

    @row("tesserad: no `--listen unix:PATH`, and no place for the default socket")
    def test_no_default_socket(self):
        self.ends(DAEMON, 4, "cannot make the directory /nonexistent/sockets for the socket", "--driver", "emulator")
        if reachable_by_nobody():
            others = f"/tmp/tessera-{NOBODY}"  # root's
            os.mkdir(others)
            self.addCleanup(os.rmdir, others)
            done = subprocess.run([DAEMON], capture_output=True, text=True, timeout=60, env=environment(TESSERA_SOCKET_DIR=None, XDG_RUNTIME_DIR=None),
                                  user=NOBODY, group=NOBODY, extra_groups=[])
            self.check(done, 2, "no XDG_RUNTIME_DIR for the socket, and .* in /tmp is another's: say where with --listen unix:PATH", "tesserad: ")

    @row("tesserad: a file of settings with an unknown key, a value that the option does not take, cut off, or that everybody may change")
    def test_settings(self):
        file = f"{self.directory.name}/tessera/tesserad.toml"
        os.mkdir(os.path.dirname(file))
        place = {"XDG_CONFIG_HOME": self.directory.name}
        for text, line, sentence in (("grace = 1\nmax-session = 3\n", 2, "no key 'max-session': the nearest is 'max-sessions'"),
                                     ("max-sessions = 0\n", 1, "the value of the key 'max-sessions' is none: .*1 (to|-) 4096"),
                                     ("no-vgpus = 1\n", 1, "a number is no value of the key 'no-vgpus', which takes true or false"),
                                     ('listen = ["/a",\n', 1, "list of the key 'listen' has no end"), ("worker-fd = 3\n", 1, "no key 'worker-fd'")):
            with open(file, "w") as out:
                out.write(text)
            self.ends(DAEMON, 2, f"{file}, line {line}: .*{sentence}", **place)
        with open(file, "w") as out:
            out.write('sandbox = "perhaps"\n')
        self.ends(DAEMON, 2, f"{file}, line 1: --sandbox takes.*'perhaps'", **place)
        with open(file, "w") as out:
            out.write('max-sessions = 3\n')
        self.ends(DAEMON, 2, f"--audit takes.*'perhaps' .some options are from {file}", "--audit", "perhaps", **place)
        os.chmod(file, 0o666)
        self.ends(DAEMON, 2, f"{file} can be changed by everybody: chmod o-w", **place)
        self.ends(DAEMON, 2, "--max-sessions.*1 (to|-) 4096", "--config", "none", "--max-sessions", "0", **place)

    @row("tesserad: no driver there; a file that is none; Tessera's own client library")
    def test_no_driver(self):
        here = ("--listen", self.url, "--driver")
        self.ends(DAEMON, 3, "missing.so.*nvidia-smi.*--driver emulator", *here, f"{self.directory.name}/missing.so")
        self.ends(DAEMON, 3, "/etc/passwd", *here, "/etc/passwd")
        self.ends(DAEMON, 3, "client library", *here, f"{CLIENT}/libcuda.so.1")

    @row("tesserad: the emulated GPU's library missing or damaged")
    def test_no_emulator(self):
        here = ("--listen", self.url, "--driver", "emulator")
        self.ends(self.installation(), 3, "libtessera-emulator.so", *here)
        os.makedirs(f"{self.directory.name}/lib")
        with open(f"{self.directory.name}/lib/libtessera-emulator.so", "wb") as damaged:
            damaged.write(b"\x7fELF")
        self.ends(f"{self.directory.name}/bin/tesserad", 3, "libtessera-emulator.so", *here)

    @row("tesserad: `CUDA_VISIBLE_DEVICES` that names no device")
    def test_no_device(self):
        self.tesserad(3, "CUDA_VISIBLE_DEVICES=9", CUDA_VISIBLE_DEVICES="9")

    @row("tesserad: a socket path too long, in no directory, at something that is no socket", "tessera-agent: a socket path in no directory")
    def test_no_place_for_a_socket(self):
        self.ends(DAEMON, 4, "107 bytes", "--listen", "unix:/" + "x" * 200, "--driver", "emulator")
        self.ends(DAEMON, 4, "/nonexistent/socket", "--listen", "unix:/nonexistent/socket", "--driver", "emulator")
        self.ends(DAEMON, 4, "not a socket", "--listen", "unix:/etc/passwd", "--driver", "emulator")
        self.ends(AGENT, 4, "/nonexistent/socket", "--listen", "unix:/nonexistent/socket", "--server", "tcp://127.0.0.1:1")

    @row("tesserad: a `--control` that is neither `unix:PATH` nor `tls://HOST:PORT`, two of one kind, or with `--no-vgpus`; `--state` without a control API")
    def test_no_address_for_the_control_api(self):
        self.tesserad(2, "--control takes unix:PATH, none or auto, and tls://HOST:PORT besides, not 'tcp://a:1'", "--control", "tcp://a:1")
        self.tesserad(2, "there can be one --control", "--control", "unix:/tmp/x", "--control", "unix:/tmp/y")
        self.tesserad(2, "--control needs a tessera-broker", "--control", "unix:/tmp/x", "--no-vgpus")
        self.tesserad(2, "--state is for what a control API makes", "--state", "/tmp/x", "--control", "none")

    @row("tesserad: a `--control` path too long, in no directory, where another server listens")
    def test_no_place_for_the_control_api(self):
        self.tesserad(4, "107 bytes", "--control", "unix:/" + "x" * 200)
        self.tesserad(4, "no control API: cannot bind /nonexistent/socket", "--control", "unix:/nonexistent/socket")
        server = Server()
        self.tesserad(4, "another server listens on " + server.path, "--control", server.url)
        self.assertEqual(server.stop(), 0)

    @row("tesserad: `--control tls://` at an address that is taken or of another host; without certificate, key or authority, or with such as cannot be used")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_no_place_for_the_control_api_by_tls(self):
        keys = Keys()
        with TcpListener(b"") as listener:
            self.tesserad(4, "no control API by TLS: ", "--control", listener.url.replace("tcp:", "tls:"), *keys.options("server", "127.0.0.1"))
        self.tesserad(4, "no control API by TLS: there is no certificate", "--control", "tls://127.0.0.1:0", HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent")
        self.tesserad(4, "is not one for servers", "--control", "tls://127.0.0.1:0", *keys.options("client", "alice"))

    @row("tesserad: a `--state` in no directory that can be made, or that is none")
    def test_no_state(self):
        # Named, since a build without gRPC has none by itself.
        control = ("--control", self.url + ".control")
        self.tesserad(4, "/proc/nowhere/state", *control, "--state", "/proc/nowhere/state")
        self.tesserad(4, "/etc/passwd is no state of a tesserad", *control, "--state", "/etc/passwd")

    @row("tesserad: `--usage-days` without a control API or its state")
    def test_no_place_for_usage_records(self):
        for words in (("--control", "none"), ("--state", "none"), ("--no-vgpus",)):
            self.tesserad(2, "--usage-days needs a control API and a place beside its state", "--usage-days", "3", *words)
        self.tesserad(2, "usage-days.*0 (to|-) 3660", "--usage-days", "3661")

    @row("tesserad: `--usage-days` where its directory cannot be made or given to its keeper, or the database in it is damaged")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_usage_records_that_cannot_be_kept(self):
        state = self.directory.name + "/state"
        options = ("--control", self.url + ".control", "--state", state, "--usage-days", "3")
        with open(state + ".usage", "w"):
            self.tesserad(4, f"no usage records: cannot open the directory {state}.usage", *options)
        os.unlink(state + ".usage")
        os.mkdir(state + ".usage", 0o755)
        self.tesserad(4, f"no usage records: others than this user may read {state}.usage", *options)
        os.chmod(state + ".usage", 0o700)
        with open(state + ".usage/usage.sqlite", "w") as database:
            database.write("x" * 10000)
        self.tesserad(4, f"no usage records: {state}.usage/usage.sqlite: file is not a database; it is damaged: move it away", *options)

    @row("tesserad: `--usage-days` where its directory cannot be made or given to its keeper, or the database in it is damaged")
    @unittest.skipUnless(HAS_CONTROL_API and os.geteuid() == 0, "root alone gives them to a keeper")
    def test_usage_records_that_cannot_be_given_to_their_keeper(self):
        state = self.directory.name + "/state"
        os.mkdir(state + ".usage", 0o700)
        database = state + ".usage/usage.sqlite"
        open(database, "w").close()
        if subprocess.run(["chattr", "+i", database], capture_output=True).returncode != 0:
            self.skipTest("no file can be made immutable here")
        self.addCleanup(subprocess.run, ["chattr", "-i", database], check=True)
        self.tesserad(4, f"no usage records: cannot give {database} to its keeper: Operation not permitted", "--control", self.url + ".control",
                      "--state", state, "--usage-days", "3")

    @row("tesserad: a `--placer` of another form, or with `--no-vgpus` or `--control none`; an unknown `--admission`, or `ticket` without `--placer`")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no gRPC")
    def test_no_address_of_a_placer(self):
        self.tesserad(2, "--placer takes unix:PATH or tls://HOST:PORT, not 'tcp://a:1'", "--placer", "tcp://a:1")
        self.tesserad(2, "--placer takes unix:PATH or tls://HOST:PORT, not 'a:b'", "--placer", "a:b")
        self.tesserad(2, "HOST:PORT", "--placer", "tls://a:b")
        self.tesserad(2, "--placer needs a tessera-broker", "--placer", "unix:/tmp/p", "--no-vgpus")
        self.tesserad(2, "--placer needs the control API", "--placer", "unix:/tmp/p", "--control", "none")
        self.tesserad(2, "--admission takes auto, open or ticket, not 'all'", "--admission", "all")
        self.tesserad(2, "--admission ticket needs the placer", "--admission", "ticket")

    @row("tesserad: `tessera-node` missing")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no gRPC")
    def test_no_node(self):
        daemon = self.installation("bin/tessera-broker", "lib/libtessera-emulator.so")
        self.ends(daemon, 4, "tessera-node.*install it again", "--listen", self.url, "--driver", "emulator", "--placer", "unix:/tmp/p")

    @row("tesserad: a placer that does not answer, or does not take this server")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no gRPC")
    def test_no_placer(self):
        server = Server("--placer", "unix:/nonexistent/placer")
        wait_for(lambda: "no placer at /nonexistent/placer" in server.words(), 20, "a word of the node")
        done = subprocess.run([TESSERA, "run", "--server", server.url, "--", "true"], capture_output=True, text=True, timeout=30, env=environment())
        self.assertEqual(done.returncode, 73, done.stderr)
        self.assertEqual(server.stop(), 0)

    @row("tessera-placer: `--listen`, `--store`, `--cluster`, `--ticket-life` that are none")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no gRPC")
    def test_command_line_of_the_placer(self):
        for listen in ("tcp://a:1", "a:b"):
            self.ends(PLACER, 2, f"--listen takes a path, HOST, HOST:PORT, unix:PATH or tls://HOST:PORT, not '{listen}'", "--listen", listen)
        self.ends(PLACER, 2, "--store takes sqlite:PATH or memory, not 'etcd'", "--listen", self.url, "--store", "etcd")
        self.ends(PLACER, 2, "--cluster takes 1 to 63", "--listen", self.url, "--cluster", "x" * 64)
        self.ends(PLACER, 2, "--ticket-life.*10 (to|-) 86400", "--listen", self.url, "--ticket-life", "9")
        self.ends(PLACER, 2, "--stor.*tessera-placer --help", "--stor", "memory")

    @row("tessera-placer: an address or socket that is taken; a store that is another's, damaged or read-only; a policy that is broken")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no gRPC")
    def test_what_a_placer_cannot_use(self):
        here = ("--listen", self.url, "--store")
        self.ends(PLACER, 4, "/nonexistent", "--listen", "unix:/nonexistent/a/b", "--store", "memory")
        server = Server()
        self.ends(PLACER, 4, server.path, "--listen", server.url, "--store", "memory")
        self.assertEqual(server.stop(), 0)
        self.ends(PLACER, 4, "/etc/passwd", *here, "sqlite:/etc/passwd")
        self.check_read_only_store()
        policy = f"{self.directory.name}/policy.toml"
        with open(policy, "w") as file:
            file.write("[roles]\n'name:a' = 'king'\n")
        self.ends(PLACER, 4, "policy.toml, line 2", *here, "memory", "--policy", policy)
        self.ends(PLACER, 4, "there is no certificate", "--listen", "tls://127.0.0.1:0", "--store", "memory", HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent")

    @row("tessera-placer: a `--sign-with` that is no directory of an authority, whose key others may read, or whose time is over")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no gRPC")
    def test_what_a_placer_cannot_sign_with(self):
        here = ("--listen", self.url, "--store", "memory", "--sign-with")
        self.ends(PLACER, 4, "--sign-with takes the directory of an authority", *here, "/nonexistent")
        keys = Keys()
        self.ends(PLACER, 4, "--sign-with takes the directory of an authority", *here, keys.of("client", "alice"))
        os.chmod(f"{keys.authority}/authority-key.pem", 0o644)
        self.ends(PLACER, 4, "authority-key.pem can be read by others: chmod 600", *here, keys.authority)

    @row("tesserad: a `--metrics` that is no address, or with `--no-vgpus`")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_no_address_for_metrics(self):
        for address in ("9464", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:9464x", "somewhere:9464", "[::1:9464", ":9464", "127.1:1"):
            self.tesserad(2, f"--metrics takes 127.0.0.1:PORT, not '{re.escape(address)}'", "--metrics", address)
        self.tesserad(2, "--metrics needs a tessera-broker", "--metrics", "127.0.0.1:9464", "--no-vgpus")

    @row("tesserad: a `--metrics` address beyond this host, or taken")
    @unittest.skipUnless(HAS_CONTROL_API, "this build has no control API")
    def test_no_place_for_metrics(self):
        for address in ("0.0.0.0:9464", "[::]:9464", "10.0.0.1:9464"):
            self.tesserad(4, f"no metrics: {re.escape(address)} can be reached from other hosts.*loopback device only", "--metrics", address)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.tesserad(4, f"no metrics: somebody listens on 127.0.0.1:{port} already", "--metrics", f"127.0.0.1:{port}")

    @row("tesserad or tessera-agent: another server listens at the socket")
    def test_socket_in_use(self):
        server = Server()
        self.ends(DAEMON, 4, "another server listens on " + server.path, "--listen", server.url, "--driver", "emulator")
        self.ends(AGENT, 4, "another server listens on " + server.path, "--listen", server.url, "--server", "tcp://127.0.0.1:1")
        self.assertEqual(server.stop(), 0)

    @row("tesserad: a `tcp://` address that is taken, or beyond this host without `--insecure`")
    def test_address_of_the_daemons_gateway(self):
        with TcpListener(b"") as listener:
            self.tesserad(4, "somebody listens on " + listener.url, "--listen", listener.url, says="tessera-gateway")
        self.tesserad(4, "neither encrypted.*--insecure", "--listen", "tcp://0.0.0.0:0", says="tessera-gateway")

    @row("tesserad: `tessera-gateway` missing")
    def test_no_gateway(self):
        self.ends(self.installation("lib/libtessera-emulator.so"), 4, "tessera-gateway.*install it again", "--listen", self.url, "--listen", TCP,
                  "--driver", "emulator")

    @row("tesserad: `--sandbox require` without what it takes, as with a `--worker-user` that does not exist")
    @unittest.skipUnless(os.geteuid() == 0, "needs to be root: others have no worker user")
    def test_no_sandbox(self):
        self.tesserad(5, "no-such-user.*--worker-user", "--sandbox", "require", "--worker-user", "no-such-user")

    @row("tesserad: `TESSERA_EMULATOR_DEVICES`, `_MEMORY_MIB`, `_CONTEXT_MIB` that are no such number")
    def test_settings_of_the_emulator(self):
        for name, value, instead in (("TESSERA_EMULATOR_DEVICES", "many", "1 to 8: using 1"),
                                     ("TESSERA_EMULATOR_MEMORY_MIB", "-3", "16 to 1048576: using 4096"),
                                     ("TESSERA_EMULATOR_CONTEXT_MIB", "0.5", "0 to 1048576: using 0")):
            server = Server(env=environment(**{name: value}))
            self.assertIn("×1", server.ready)
            self.assertRegex(server.words(), f"{name} is '{value}', not a number from {instead}")
            self.goes_on(server)

    # The other two.

    @row("tessera-agent: no `--listen`, no `--server`, addresses of another form")
    def test_addresses_of_the_agent(self):
        gateway = ("--server", "tcp://127.0.0.1:1")
        self.ends(AGENT, 2, "--listen.*required", *gateway)
        self.ends(AGENT, 2, "--server.*required", "--listen", self.url)
        for server in ("unix:/y", "/y", "a b", "gpu7:x", "tls:gpu7"):
            self.ends(AGENT, 2, f"'{server}' is no gateway on another host: --server takes HOST, HOST:PORT.*tcp://HOST:PORT", "--listen", self.url,
                      "--server", server)
        self.ends(AGENT, 2, "tcp://HOST:PORT", "--listen", self.url, "--server", "tls://gpu7:x")
        self.ends(AGENT, 2, "unix:PATH", "--listen", TCP, *gateway)

    @row("tessera-gateway: no `--listen`, no `--server`, addresses of another form")
    def test_addresses_of_the_gateway(self):
        server = ("--server", self.url)
        self.ends(GATEWAY, 2, "--listen.*required", *server)
        self.ends(GATEWAY, 2, "--server.*required", "--listen", TCP)
        for listen in ("unix:/x", "/x", "a b", "gpu7:x", "tls:gpu7"):
            self.ends(GATEWAY, 2, f"cannot listen on '{listen}': --listen takes HOST, HOST:PORT.*tcp://HOST:PORT", "--listen", listen, *server)
        self.ends(GATEWAY, 2, "tcp://HOST:PORT", "--listen", "tls://gpu7:x", *server)
        self.ends(GATEWAY, 2, "unix:PATH", "--listen", TCP, "--server", "tcp://h:1")

    @row("tessera-gateway: an address that is taken, that no interface has, or beyond this host without `--insecure`")
    def test_no_address_for_the_gateway(self):
        server = ("--server", self.url)
        self.ends(GATEWAY, 4, "neither encrypted.*--insecure", "--listen", "tcp://0.0.0.0:0", *server)
        self.ends(GATEWAY, 4, "no address of this host", "--listen", "tcp://192.0.2.1:0", *server, "--insecure")
        with TcpListener(b"") as listener:
            self.ends(GATEWAY, 4, "somebody listens on " + listener.url, "--listen", listener.url, *server)

    @row("tesserad or tessera-gateway: `tls://` without a certificate, or with files that cannot be used")
    def test_no_certificate(self):
        tls = ("--listen", "tls://127.0.0.1:0", "--certificate", "/nonexistent/certificate")
        self.ends(GATEWAY, 4, "no certificate at /nonexistent/certificate.*tessera keys server", "--server", self.url, *tls)
        self.tesserad(4, "no certificate at /nonexistent/certificate", *tls, says="tessera-gateway")
        options = Keys().options("client", "alice")
        self.ends(GATEWAY, 4, "not one for servers: make one with 'tessera keys server", "--server", self.url, *tls[:2], *options)

    @row("tesserad or tessera-gateway: `--allow` without `tls://`")
    def test_nobody_has_a_name_over_tcp(self):
        self.ends(GATEWAY, 4, "--allow is for tls://", "--server", self.url, "--listen", TCP, "--allow", "alice")
        self.tesserad(4, "--allow is for tls://", "--listen", TCP, "--allow", "alice", says="tessera-gateway")

    # Peers.

    @row("tessera-gateway: a peer without a certificate that is accepted, or who is not allowed")
    def test_peers_that_may_not_connect(self):
        keys, strangers = Keys(), Keys()
        gateway = Gateway("/nonexistent", *keys.options("server", "127.0.0.1"), "--allow", "bob", listen="tls://127.0.0.1:0")
        for options, sentence in ((keys.options("client", "alice"), "'alice' is not allowed here"),
                                  (strangers.options("client", "bob")[:4] + keys.options("client", "alice")[4:], "'bob' of the peer was signed by")):
            subprocess.run([TESSERA, "status", "--server", gateway.url, *options], capture_output=True, timeout=60, env=environment())
            wait_for(lambda: re.search("turned away 127.0.0.1:.*" + sentence, gateway.words()), 10, sentence)
            time.sleep(1.1)  # the log has a line a second of strangers
        self.goes_on(gateway)

    def goes_on(self, part):
        self.stands_in_its_row("goes on")
        self.assertIsNone(part.process.poll())
        self.assertEqual(part.stop(), 0)

    def peer_of(self, part):
        """A connection to it."""
        if part.url.startswith("unix:"):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            peer.connect(part.url[len("unix:"):])
        else:
            host, port = re.fullmatch(r"tcp://(.*):(\d+)", part.url).groups()
            peer = socket.create_connection((host, int(port)))
        peer.settimeout(20)
        self.addCleanup(peer.close)
        return peer

    def turned_away(self, said, *sentences):
        """What each of the three, beginning with tesserad, logs of a peer that says this and then nothing; all of them still serve."""
        server = Server("--hello-timeout", "1")
        gateway = Gateway(server.path, "--hello-timeout", "1")
        agent = Agent(gateway.url, "--hello-timeout", "1")
        for part, sentence in zip((server, agent, gateway), sentences):
            time.sleep(1.1)  # the gateway's log has a line a second of strangers, and the agent's peer may have been one
            peer = self.peer_of(part)
            if said:
                peer.sendall(said)
            wait_for(lambda: re.search("turned away.*" + sentence, part.words()), 15, f"'{sentence}' in the log")
        done = subprocess.run([TESSERA, "status", "--server", agent.url], capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in (agent, gateway, server):
            self.goes_on(part)

    @row("any: a peer that connects and says nothing for `--hello-timeout`")
    def test_silent_peers(self):
        self.turned_away(None, "connected and said nothing", "connected and said nothing", "connected and said nothing")

    @row("any: a peer that speaks something else")
    def test_foreign_peers(self):
        self.turned_away(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "something else than a hello", "malformed hello", "no tessera")

    @row("tesserad, tessera-agent: a peer of another user")
    @unittest.skipUnless(reachable_by_nobody(), "needs to be root, and a build directory that others can read")
    def test_peers_of_another_user(self):
        server = Server()
        agent = Agent(TCP.replace(":0", ":1"))
        for part in (server, agent):
            path = part.url[len("unix:"):]
            os.chmod(os.path.dirname(path), 0o755)
            os.chmod(path, 0o666)  # as an administrator might, who wants to let them in
            done = subprocess.run([TESSERA, "run", "--server", part.url, "--", "true"], capture_output=True, text=True, timeout=60,
                                  env=environment(), user=NOBODY)
            self.assertEqual(done.returncode, 73, done.stderr)
            wait_for(lambda: re.search("turned away.*user", part.words()), 10, "the line in the log")
            self.goes_on(part)

    @row()
    def test_help_and_version(self):
        for program in (DAEMON, AGENT, GATEWAY):
            for word in ("--help", "--version"):
                done = subprocess.run([program, word], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(os.path.basename(program), done.stdout)


class Table(unittest.TestCase):
    def test_every_row_has_a_test_and_every_test_a_row(self):
        check_rows(self, HEADING, (Services,))


if __name__ == "__main__":
    unittest.main(verbosity=2)
