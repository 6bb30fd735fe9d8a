#!/usr/bin/env python3
"""Sessions over TCP whose connections are cut, stalled and dropped on the way: programs notice nothing but a pause, until the
grace time is over.

usage: resume_test.py BUILD_DIRECTORY
"""

import random
import re
import select
import socket
import struct
import subprocess
import threading
import time
import unittest

from product import TESSERA, Agent, Gateway, Keys, Server, environment, program, wait_for


STEPS = 1200  # of the training: thousands of launches and copies


class Cable:
    """One connection through the proxy. `cut_after`: bytes, of both directions; None: never. `how`: see cut()."""

    def __init__(self, proxy, client, server, cut_after, how):
        self.proxy, self.client, self.server, self.cut_after, self.how = proxy, client, server, cut_after, how
        self.passed = 0
        self.stalled_until = 0.0
        self.silent = False  # nothing passes any more, and nobody is told
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        ends = {self.client: self.server, self.server: self.client}
        try:
            while True:
                ready, _, _ = select.select(list(ends), [], [], 0.05)
                if self.silent:
                    time.sleep(0.05)
                    continue
                time.sleep(max(0.0, self.stalled_until - time.monotonic()))
                for end in ready:
                    words = end.recv(65536)
                    if not words:
                        return self.close()
                    if self.cut_after is not None and self.passed + len(words) > self.cut_after:
                        ends[end].sendall(words[:max(0, self.cut_after - self.passed)])
                        return self.cut(self.how)
                    self.passed += len(words)
                    ends[end].sendall(words)
        except (OSError, ValueError):  # cut by another thread
            self.close()

    def close(self):
        for end in (self.client, self.server):
            try:
                end.close()
            except OSError:
                pass

    def cut(self, how):
        """reset: both ends learn of it at once; client, server: only that end does, and the other is left with a connection on
        which nothing comes any more."""
        self.proxy.cuts += 1
        for end, name in ((self.client, "client"), (self.server, "server")):
            if how in ("reset", name):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()
            else:
                self.proxy.left_open.append(end)


class Proxy:
    """Between agents and a gateway. Cuts nothing until it is told to."""

    def __init__(self, gateway_url):
        scheme, host, port = re.fullmatch(r"(.*)://(.*):(\d+)", gateway_url).groups()
        self.gateway = (host, int(port))
        self.plan = lambda: (None, "reset")
        self.cuts = 0
        self.left_open = []
        self.cables = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = scheme + "://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            try:
                server = socket.create_connection(self.gateway, timeout=20)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.cables.append(Cable(self, client, server, *self.plan()))

    def cut_by(self, plan):
        """From now on `plan()` says of each connection how many bytes it lasts, and how it ends; what there is ends soon."""
        self.plan = plan
        for cable in self.cables:
            cable.cut_after = cable.passed + 2000

    def cut_all(self, how="reset"):
        for cable in self.cables:
            try:
                cable.cut(how)
            except OSError:
                pass
        self.cables.clear()

    def stop(self):
        self.listener.close()
        for cable in self.cables:
            cable.silent = False
            for end in (cable.client, cable.server):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for end in self.left_open:
            end.close()


class Resume(unittest.TestCase):
    GRACE = 30

    def setUp(self):
        self.server = Server()
        self.gateway = Gateway(self.server.path, "--resume-grace", str(self.GRACE))
        self.addCleanup(self.check_all_ended)

    def check_all_ended(self):
        wait_for(lambda: not self.server.workers(), 10, "the end of all workers")
        self.assertEqual(self.gateway.stop(), 0)
        self.assertEqual(self.server.stop(), 0)

    def proxy(self):
        proxy = Proxy(self.gateway.url)
        self.addCleanup(proxy.stop)
        return proxy

    def start(self, url, *words, options=()):
        return subprocess.Popen([TESSERA, "run", "--quiet", "--server", url, *options, "--", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment())


class Cuts(Resume):
    def train(self, url):
        client = self.start(url, program("train"), str(STEPS))
        self.assertEqual(client.stdout.readline(), "training\n")
        return client

    def test_a_training_through_a_hundred_cuts_is_bit_identical(self):
        running = []
        for ways in (("reset",), ("reset", "client")):  # "client": the gateway is left with a connection that is dead
            proxy = self.proxy()
            running.append((ways, proxy, self.train(proxy.url)))
        for ways, proxy, _ in running:
            chance = random.Random(len(ways))
            proxy.cut_by(lambda chance=chance, ways=ways: (chance.randrange(1, 220_000 if chance.random() < 0.9 else 1000), chance.choice(ways)))
        for _, proxy, client in running:
            self.check(client)
            self.assertGreaterEqual(proxy.cuts, 100)

    def test_copies_of_all_kinds_that_check_every_word(self):
        chance = random.Random(3)
        proxy = self.proxy()
        client = self.start(proxy.url, program("load"), "--rounds", "60")
        wait_for(lambda: any(cable.passed > 300_000 for cable in proxy.cables), 20, "the beginning of the session")
        proxy.cut_by(lambda: (chance.randrange(1, 600_000), chance.choice(("reset", "client"))))
        out, err = client.communicate(timeout=200)
        self.assertEqual((out, err), ("ok\n", ""))
        self.assertGreaterEqual(proxy.cuts, 20)

    def test_the_loss_of_one_connection_of_several_is_the_loss_of_all(self):
        chance = random.Random(5)
        proxy = self.proxy()
        client = self.start(proxy.url, program("load"), "--rounds", "40", options=("--connections", "3"))
        wait_for(lambda: sum(cable.passed > 300_000 for cable in proxy.cables) >= 3, 20, "large frames on every connection")
        proxy.cut_by(lambda: (chance.randrange(5_000, 1_500_000), chance.choice(("reset", "client"))))
        out, err = client.communicate(timeout=200)
        self.assertEqual((out, err), ("ok\n", ""))
        self.assertGreaterEqual(proxy.cuts, 10)

    expected = None  # what the training prints, uncut

    def uncut_training(self):
        if Cuts.expected is None:
            Cuts.expected, err = self.start(self.gateway.url, program("train"), str(STEPS)).communicate(timeout=100)
            self.assertEqual(err, "")
            self.assertRegex(Cuts.expected, rf"{STEPS} steps: [0-9a-f]{{16}}\n$")
        return Cuts.expected

    def check(self, client, said=""):
        expected = self.uncut_training()
        out, err = client.communicate(timeout=200)
        self.assertEqual("training\n" + out, expected)
        self.assertRegex(err, "^" + said + "$")

    def test_stalls_and_connections_whose_end_never_comes(self):
        proxy = self.proxy()
        clients, cables = [], []
        for _ in range(3):
            clients.append(self.train(proxy.url))
            cables.append(proxy.cables[-1])
        links = len(proxy.cables)
        # Short of what a silent host is given: it goes on by itself.
        cables[0].stalled_until = time.monotonic() + 5
        # The agent's end stays open, and nothing comes any more.
        cables[1].cut("server")
        # Nobody is told.
        cables[2].silent = True
        for client in clients:
            self.check(client)
        # The two others came anew. The gateway says so of each, but it counts lines that are equal to the millisecond.
        self.assertIn("goes on over a new link", self.gateway.words())
        self.assertGreaterEqual(len(proxy.cables), links + 2)

    def test_an_outage_of_some_seconds_is_told_once(self):
        proxy = self.proxy()
        client = self.train(proxy.url)
        proxy.open = False
        proxy.cut_all()
        time.sleep(3)
        proxy.open = True
        self.check(client, r"tessera-agent\[\d+\]: warning: a session is without a link [^\n]*\n")

    def test_a_program_that_ends_meanwhile_is_heard_when_there_is_a_link_again(self):
        proxy = self.proxy()
        agent = Agent(proxy.url)
        client = self.start(agent.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        proxy.open = False
        proxy.cut_all()
        client.kill()
        client.communicate()
        self.assertEqual(len(self.server.workers()), 1)
        proxy.open = True
        wait_for(lambda: not self.server.workers(), 10, "the end of the worker")
        self.assertEqual(agent.stop(), 0)

    def test_a_job_that_ends_meanwhile_leaves_an_agent_that_says_so(self):
        proxy = self.proxy()
        client = self.start(proxy.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        proxy.open = False
        proxy.cut_all()
        client.kill()
        client.communicate(timeout=5)  # the agent has left stderr
        self.assertEqual(len(self.server.workers()), 1)
        proxy.open = True
        wait_for(lambda: not self.server.workers(), 10, "the end of the worker")

    def test_agent_and_gateway_stop_though_a_session_waits(self):
        proxy = self.proxy()
        agent = Agent(proxy.url)
        client = self.start(agent.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        proxy.open = False
        proxy.cut_all()
        began_at = time.monotonic()
        self.assertEqual(agent.stop(), 0)
        out, err = client.communicate(timeout=5)
        self.assertRegex(out, r"ended with [1-9]\d*\n")
        self.assertEqual(len(self.server.workers()), 1)
        self.assertEqual(self.gateway.stop(), 0)
        self.assertLess(time.monotonic() - began_at, 12)
        wait_for(lambda: not self.server.workers(), 10, "the end of the worker")
        self.gateway = Gateway(self.server.path)

    def test_waiting_sessions_count(self):
        self.gateway.stop()
        self.gateway = Gateway(self.server.path, "--resume-grace", "20", "--max-sessions", "1")
        proxy = self.proxy()
        agent = Agent(proxy.url)
        client = self.start(agent.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        proxy.open = False
        proxy.cut_all()
        done = subprocess.run([TESSERA, "run", "--server", self.gateway.url, "--", program("count")], capture_output=True, text=True,
                              timeout=60, env=environment())
        self.assertRegex(done.stderr, "1 sessions, its limit")
        client.kill()
        client.communicate()
        proxy.open = True
        wait_for(lambda: not self.server.workers(), 10, "the end of the worker")
        self.assertEqual(agent.stop(), 0)


class CutsOverTls(unittest.TestCase):
    """Every cut costs a handshake, and whoever comes back has to be the same."""

    def setUp(self):
        self.server = Server()
        self.keys = Keys()
        self.gateway = Gateway(self.server.path, *self.keys.options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")

    def test_copies_of_all_kinds_that_check_every_word(self):
        chance = random.Random(4)
        proxy = Proxy(self.gateway.url)
        self.addCleanup(proxy.stop)
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", proxy.url, "--", program("load"), "--rounds", "40"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment(**self.keys.environment("client", "laptop")))
        wait_for(lambda: any(cable.passed > 300_000 for cable in proxy.cables), 20, "the beginning of the session")
        proxy.cut_by(lambda: (chance.randrange(5_000, 900_000), chance.choice(("reset", "client"))))
        out, err = client.communicate(timeout=200)
        # Some handshakes in a row are cut, which takes seconds where the processor is busy with others, and is told then.
        told = [line for line in err.splitlines() if "is without a link to the other host" not in line]
        self.assertEqual((out, told), ("ok\n", []))
        self.assertGreaterEqual(proxy.cuts, 10)
        wait_for(lambda: not self.server.workers(), 10, "the end of all workers")
        self.assertEqual((self.gateway.stop(), self.server.stop()), (0, 0))


class Grace(Resume):
    GRACE = 2

    def test_after_the_grace_time_the_client_is_told_and_the_server_is_free(self):
        proxy = self.proxy()
        client = self.start(proxy.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        self.assertEqual(len(self.server.workers()), 1)
        proxy.open = False
        cut_at = time.monotonic()
        proxy.cut_all()
        out, err = client.communicate(timeout=20)
        self.assertGreater(time.monotonic() - cut_at, 1.5)
        self.assertRegex(out, r"ended with [1-9]\d*\n")
        self.assertRegex(err, r"did not come back within 2 s[^\n]*start the program again\n")  # and of the agent, when it was that long
        wait_for(lambda: not self.server.workers(), 10, "the end of the worker")

    def test_a_daemon_tells_its_gateway(self):
        server = Server("--listen", "tcp://127.0.0.1:0", "--resume-grace", "1")
        proxy = Proxy(re.search(r" and (tcp://127.0.0.1:\d+), devices", server.ready).group(1))
        client = self.start(proxy.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        proxy.open = False
        proxy.cut_all()
        out, err = client.communicate(timeout=20)
        self.assertRegex(err, r"did not come back within 1 s[^\n]*start the program again\n$")
        wait_for(lambda: "session 1 of pid" in server.words(), 10, "the end of the worker")
        proxy.stop()
        self.assertEqual(server.stop(), 0)

    def test_a_gateway_that_was_started_anew_says_so(self):
        client = self.start(self.gateway.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        url = self.gateway.url
        self.gateway.kill()
        self.gateway = Gateway(self.server.path, listen=url)
        out, err = client.communicate(timeout=20)
        self.assertRegex(out, r"ended with [1-9]\d*\n")
        self.assertRegex(err, r"session is over at the server's host[^\n]*start the program again")


class Without(Resume):
    GRACE = 0

    def test_a_session_ends_with_its_link(self):
        proxy = self.proxy()
        client = self.start(proxy.url, program("spin"))
        self.assertEqual(client.stdout.readline(), "spinning\n")
        cut_at = time.monotonic()
        proxy.cut_all()
        out, err = client.communicate(timeout=20)
        self.assertLess(time.monotonic() - cut_at, 8)
        self.assertRegex(err, r"^tessera[^\n]*start the program again\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
