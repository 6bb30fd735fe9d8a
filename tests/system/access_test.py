#!/usr/bin/env python3
"""Who may use a server, and whose sessions it shows: other users of its host, names in certificates, and those who have proved nothing.

usage: access_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import tempfile
import unittest

from product import CLIENT, TESSERA, Agent, Gateway, Keys, Server, end_with_test, environment, program, the_server, wait_for
from users import ALICE, BOB, CAROL, GROUP, NO_GROUP, become, can_be_another

CAN_BE_ANOTHER = can_be_another()


def ask(url, user, group=NO_GROUP):
    return subprocess.run([TESSERA, "status", "--server", url], capture_output=True, text=True, timeout=60, cwd="/",
                          env=environment(HOME="/nonexistent"), preexec_fn=become(user, group))


@unittest.skipUnless(CAN_BE_ANOTHER, "needs root, and programs that every user can reach")
class OtherUsers(unittest.TestCase):
    def serve(self, *options):
        server = Server(*options)
        self.addCleanup(server.stop)
        os.chmod(server.directory.name, 0o755)
        return server

    def test_by_itself_a_socket_is_one_users(self):
        server = self.serve()
        refused = ask(server.url, ALICE)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("not allowed to use the socket", refused.stderr)
        # Nor is the file's mode believed that nobody has asked the server for.
        os.chmod(server.path, 0o666)
        refused = ask(server.url, ALICE)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"user {ALICE}", refused.stderr)

    def test_members_of_a_group(self):
        server = self.serve("--socket-group", str(GROUP))
        self.assertEqual(os.stat(server.path).st_mode & 0o777, 0o660)
        self.assertIn("not allowed to use the socket", ask(server.url, ALICE).stderr)
        self.assertEqual(ask(server.url, ALICE, GROUP).returncode, 0)

    def test_every_user_of_the_host(self):
        server = self.serve("--socket-mode", "666")
        for user in (ALICE, BOB):
            done = ask(server.url, user)
            self.assertEqual(done.returncode, 0, done.stderr)


def start(url, before=None, **env):
    """A program that works until it is ended, when its session has begun."""
    client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", url, "--", program("spin")], stdout=subprocess.PIPE, text=True, cwd="/",
                              env=environment(HOME="/nonexistent", **env), preexec_fn=before)
    end_with_test(client)
    assert client.stdout.readline() == "spinning\n"
    return client


def end(*clients):
    for client in clients:
        client.kill()
        client.communicate()


def look(url, command="status", before=None, **env):
    """What whoever `before` makes of the process is told, as an object."""
    words = ["--count", "1"] if command == "top" else []
    done = subprocess.run([TESSERA, command, "--server", url, "--output", "json", *words], capture_output=True, text=True, timeout=60, cwd="/",
                          env=environment(HOME="/nonexistent", **env), preexec_fn=before)
    assert done.returncode == 0, done.stderr
    return the_server(done.stdout)


def shown(told):
    return sorted((session["user"], session["host"], session["name"]) for session in told["session_list"])


# Prints the processes of device 0 as NVML has them: pid and name.
NVML = """
import ctypes, sys
class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]
nvml = ctypes.CDLL(sys.argv[1] + "/libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
device, count, processes = ctypes.c_void_p(), ctypes.c_uint(8), (Process * 8)()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes) == 0
for process in processes[:count.value]:
    name = ctypes.create_string_buffer(256)
    assert nvml.nvmlSystemGetProcessName(process.pid, name, 256) == 0
    print(process.pid, name.value.decode())
"""


def nvml(url, before=None, **env):
    done = subprocess.run(["python3", "-c", NVML, CLIENT], capture_output=True, text=True, timeout=60, cwd="/", preexec_fn=before,
                          env=environment(TESSERA_SERVER=url, HOME="/nonexistent", **env))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


HOST = os.uname().nodename


@unittest.skipUnless(CAN_BE_ANOTHER, "needs root, and programs that every user can reach")
class Sight(unittest.TestCase):
    """Users see their own sessions, and sums of the others'; administrators see all."""

    def setUp(self):
        self.server = Server("--socket-mode", "666", "--admin", f"uid:{CAROL}")
        self.addCleanup(self.server.stop)
        os.chmod(self.server.directory.name, 0o755)
        self.clients = [start(self.server.url, become(user)) for user in (ALICE, BOB, BOB)]
        self.addCleanup(end, *self.clients)
        self.of_alice = (str(ALICE), HOST, f"uid:{ALICE}")
        self.of_bob = (str(BOB), HOST, f"uid:{BOB}")

    def test_own_sessions_and_sums(self):
        for command in ("status", "top"):
            told = look(self.server.url, command, become(ALICE))
            self.assertEqual(shown(told), [self.of_alice])
            self.assertEqual([use["pid"] for use in told["uses"]], [self.clients[0].pid])
            self.assertEqual((told["sessions"], told["other_sessions"]), (3, 2))
            device = told["devices"][0]
            self.assertEqual(device["other_sessions"], 2)
            self.assertEqual(device["others_used_bytes"] + told["uses"][0]["used_bytes"], device["memory_used_bytes"])
            told = look(self.server.url, command, become(BOB))
            self.assertEqual((shown(told), told["other_sessions"]), ([self.of_bob, self.of_bob], 1))
        text = ask(self.server.url, ALICE).stdout
        self.assertIn(f"process {self.clients[0].pid} of {ALICE}@{HOST} (uid:{ALICE}) uses ", text)
        self.assertRegex(text, r"sessions of others: 2; \d+ MiB of device 0, by 2\n$")
        self.assertNotIn(str(BOB), text)

    def test_administrators(self):
        for before in (become(CAROL), None):
            told = look(self.server.url, "status", before)
            self.assertEqual((shown(told), told["other_sessions"]), ([self.of_alice, self.of_bob, self.of_bob], 0))
            self.assertNotIn("other_sessions", told["devices"][0])
        self.assertNotIn("sessions of others", ask(self.server.url, CAROL).stdout)

    def test_sessions_are_ended_by_their_user_and_by_administrators(self):
        def end_session(number, user, *words):
            done = subprocess.run([TESSERA, "sessions", "end", str(number), "--server", self.server.url, *words], capture_output=True, text=True, cwd="/",
                                  timeout=60, env=environment(HOME="/nonexistent"), preexec_fn=become(user))
            return done.returncode, (done.stdout + done.stderr).replace(f"session {number} ", "session N ")

        sessions = look(self.server.url)["session_list"]
        alices, = (session["session"] for session in sessions if session["name"] == f"uid:{ALICE}")
        bobs = [session["session"] for session in sessions if session["name"] == f"uid:{BOB}"]
        # Another's, and none.
        refused = end_session(alices, BOB)
        self.assertEqual(refused[0], 81)
        self.assertEqual(end_session(4711, BOB), refused)
        self.assertEqual(end_session(bobs[0], CAROL, "--grace", "1h"), (0, "session N ends in 3600 s at the latest\n"))
        self.assertEqual(end_session(alices, ALICE), (0, "session N ends now\n"))
        self.assertEqual(end_session(bobs[1], CAROL), (0, "session N ends now\n"))
        self.assertEqual(end_session(bobs[0], BOB), (0, "session N ends now\n"))  # the sooner time counts
        for client in self.clients:
            self.assertRegex(client.communicate(timeout=30)[0], "^ended with [1-9]")
        wait_for(lambda: not self.server.workers(), 10, "the end of all workers")
        self.assertEqual(end_session(alices, ALICE), refused)  # it has ended

    def test_processes_of_nvml(self):
        self.assertEqual([int(line.split()[0]) for line in nvml(self.server.url, become(ALICE))], [self.clients[0].pid])
        self.assertEqual(len(nvml(self.server.url, become(BOB))), 2)
        self.assertEqual(len(nvml(self.server.url)), 3)

    def test_nobody_can_say_that_he_is_another(self):
        # A gateway of Alice's own says who its clients are, and is Alice all the same.
        gateway = Gateway(self.server.path, before=become(ALICE))
        self.addCleanup(gateway.stop)
        told = look(gateway.url)
        self.assertEqual((shown(told), told["other_sessions"]), ([self.of_alice], 2))

    def test_a_gateway_of_an_administrator_shows_its_clients_no_others(self):
        gateway = Gateway(self.server.path)
        self.addCleanup(gateway.stop)
        told = look(gateway.url)
        self.assertEqual((shown(told), told["other_sessions"]), ([], 3))


class OverNetworks(unittest.TestCase):
    """Names in certificates, which the server's own gateway says."""

    def serve(self, listen, *options):
        server = Server("--listen", listen, *options)
        self.addCleanup(server.stop)
        return server, server.ready.split(" and ")[1].split(",")[0]

    def test_names_in_certificates(self):
        keys = Keys()
        server, url = self.serve("tls://127.0.0.1:0", *keys.options("server", "localhost,127.0.0.1"), "--admin", "name:boss")
        laptop, desk, boss = (keys.environment("client", name) for name in ("laptop", "desk", "boss"))
        clients = [start(url, **laptop), start(url, **desk)]
        self.addCleanup(end, *clients)
        user = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
        for command in ("status", "top"):
            told = look(url, command, **laptop)
            self.assertEqual((shown(told), told["other_sessions"]), ([(user, "127.0.0.1", "name:laptop")], 1))
            # The client's own process, not the gateway's.
            self.assertEqual([session["pid"] for session in told["session_list"]], [clients[0].pid])
            self.assertEqual([use["pid"] for use in told["uses"]], [clients[0].pid])
            told = look(url, command, **boss)
            self.assertEqual([name for _, _, name in shown(told)], ["name:desk", "name:laptop"])
        self.assertEqual(nvml(agent_of(self, url, laptop)), [f"{clients[0].pid} spin, {user}@127.0.0.1 (name:laptop)"])
        # Its own host sees all of it.
        self.assertEqual(len(look(server.url)["session_list"]), 2)
        # Only who began a session, or an administrator, ends it.
        number = look(url, **laptop)["session_list"][0]["session"]
        for env, code in ((desk, 81), (laptop, 0)):
            done = subprocess.run([TESSERA, "sessions", "end", str(number), "--server", url], capture_output=True, text=True, timeout=60,
                                  env=environment(**env))
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(clients[0].communicate(timeout=30)[0], "^ended with [1-9]")

    def test_owners_of_vgpus(self):
        keys = Keys()
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[vgpu]]\nname = "named"\nowners = ["name:laptop"]\n[[vgpu]]\nname = "users"\nowners = ["uid:%d"]\n' % os.getuid())
            file.flush()
            server, url = self.serve("tls://127.0.0.1:0", *keys.options("server", "localhost,127.0.0.1"), "--vgpus", file.name)
            laptop, desk = (keys.environment("client", name) for name in ("laptop", "desk"))
            # A certificate makes nobody a user of the server's host, though the gateway's process is one.
            for address, vgpu, env, code in ((url, "named", laptop, 0), (url, "named", desk, 79), (url, "users", laptop, 79),
                                             (server.url, "users", {}, 0), (server.url, "named", {}, 79)):
                with self.subTest(address=address, vgpu=vgpu, env=env):
                    done = subprocess.run([TESSERA, "run", "--quiet", "--server", address, "--vgpu", vgpu, "--", program("count")],
                                          capture_output=True, text=True, timeout=60, env=environment(**env))
                    self.assertEqual(done.returncode, code, done.stderr)
            # Who may not use one is not told of it, nor of what its owners do.
            names = lambda *where, **env: sorted(vgpu["name"] for vgpu in look(*where, **env).get("vgpus", []))
            wait_for(lambda: len(names(server.url)) == 3, 20, "figures of all vGPUs")
            for command in ("status", "top"):
                seen = [names(address, command, **env) for address, env in ((server.url, {}), (url, laptop), (url, desk))]
                self.assertEqual(seen, [["default", "named", "users"], ["default", "named"], ["default"]])

    def test_who_has_proved_nothing(self):
        server, url = self.serve("tcp://127.0.0.1:0")
        clients = [start(url), start(server.url)]
        self.addCleanup(end, *clients)
        told = look(url)
        self.assertEqual([(name, host) for _, host, name in shown(told)], [("anonymous", "127.0.0.1")])
        # He ends no session, for it may be somebody else's.
        done = subprocess.run([TESSERA, "sessions", "end", str(told["session_list"][0]["session"]), "--server", url], capture_output=True, text=True,
                              timeout=60, env=environment())
        self.assertEqual(done.returncode, 81, done.stderr)
        self.assertEqual(told["other_sessions"], 1)


def agent_of(test, url, env):
    """The address of an agent that shows these keys."""
    options = [word for name in ("certificate", "key", "authority") for word in (f"--{name}", env[f"TESSERA_{name.upper()}"])]
    agent = Agent(url, *options)
    test.addCleanup(agent.stop)
    return agent.url


class ReadyLine(unittest.TestCase):
    def test_plain_addresses_say_who_may_connect(self):
        server = Server("--listen", "tcp://127.0.0.1:0")
        self.assertRegex(server.ready, r"; every user of this host may connect to tcp://127\.0\.0\.1:\d+\n$")
        gateway = Gateway(server.path)
        self.assertTrue(gateway.ready.endswith(f"; every user of this host may connect to {gateway.url}\n"), gateway.ready)
        gateway.stop()
        gateway = Gateway(server.path, "--insecure", listen="tcp://0.0.0.0:0")
        self.assertTrue(gateway.ready.endswith(f"; everybody on its network may connect to {gateway.url}\n"), gateway.ready)
        gateway.stop()
        gateway = Gateway(server.path, *Keys().options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")
        self.assertNotIn("may connect", gateway.ready)
        self.assertTrue(gateway.ready.startswith("tessera-gateway: listening on tls://"), gateway.ready)
        gateway.stop()
        server.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
