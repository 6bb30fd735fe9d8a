#!/usr/bin/env python3
"""Strangers at a gateway who prove nothing: silent ones, slow ones, ones that speak something else. Beyond the bound the oldest goes; clients
come in meanwhile, sessions lose nothing and come back.

usage: strangers_system_test.py BUILD_DIRECTORY

With STRANGERS=2000 in the environment: so many of each kind at a gateway with its usual bound, and how long clients take is checked.
"""

import multiprocessing
import os
import re
import resource
import selectors
import signal
import socket
import ssl
import subprocess
import time
import unittest

from product import HEAPS_MAX, TESSERA, Gateway, Keys, Server, as_with_many_processors, closed, environment, heaps, program, wait_for

MANY = int(os.environ.get("STRANGERS", "0"))
EACH = MANY or 100  # of each kind
# Descriptors of the gateway, of which an eighth may be strangers': fewer than come.
LIMIT = None if MANY else 512
BOUND = 64
PROVED = 256  # RelayService::kProvedMax
STEPS = "300"
# How a link begins that nobody goes on with.
BEGINNINGS = {"tcp": b"TLNK\3\0\0\0" + bytes(8), "tls": b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(2000)}


def limited():
    if LIMIT:
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


class Crowd:
    """Strangers of three kinds who come again, five times a second, as they are turned away, until stop(). In a process of their own: what
    this one measures is not to wait for them."""

    def __init__(self, address, beginning, each):
        self.address, self.beginning, self.each = address, beginning, each
        self.turned_away, self.going_on = multiprocessing.Value("l", 0), multiprocessing.Value("b", 1)
        self.process = multiprocessing.get_context("fork").Process(target=self.run, daemon=True)
        self.process.start()

    def come(self, kind):
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex(self.address)
        self.peers[peer] = [kind, 0]
        self.selector.register(peer, selectors.EVENT_READ | (selectors.EVENT_WRITE if kind == "garbage" else 0))

    def leave(self, peer):
        self.selector.unregister(peer)
        peer.close()
        del self.peers[peer]

    def run(self):
        os.closerange(3, 4096)  # a program would not see the end of its input while this has it open too
        self.selector, self.peers = selectors.DefaultSelector(), {}
        gone = ["silent", "slow", "garbage"] * self.each
        last = came = 0
        while self.going_on.value:
            if time.monotonic() - came > 0.2:
                for kind in gone:
                    self.come(kind)
                gone, came = [], time.monotonic()
            for key, events in self.selector.select(0.1):
                peer = key.fileobj
                kind = self.peers[peer][0]
                if events & selectors.EVENT_WRITE:
                    self.selector.modify(peer, selectors.EVENT_READ)
                    peer.send(os.urandom(64))
                elif closed(peer):
                    self.turned_away.value += 1
                    self.leave(peer)
                    gone.append(kind)
            if time.monotonic() - last > 1:
                last = time.monotonic()
                self.a_byte_of_the_slow()
            time.sleep(0.01)

    def a_byte_of_the_slow(self):
        for peer, state in list(self.peers.items()):
            if state[0] != "slow":
                continue
            try:
                peer.send(self.beginning[state[1]:state[1] + 1])
                state[1] += 1
            except OSError:
                pass

    def stop(self):
        self.going_on.value = 0
        self.process.join(20)
        self.process.kill()


def left(peer):
    """As closed(), of a socket under TLS."""
    try:
        return peer.recv(4096) == b""
    except ssl.SSLWantReadError:
        return False
    except OSError:
        return True


class Strangers(unittest.TestCase):
    link = "tcp"

    def setUp(self):
        self.keys = Keys() if self.link == "tls" else None
        self.server = Server()
        self.gateway = None

    def begin(self, *options):
        keys = self.keys.options("server", "localhost,127.0.0.1") if self.keys else []
        self.gateway = Gateway(self.server.path, *keys, *options, listen=self.link + "://127.0.0.1:0", before=limited)
        host, port = re.fullmatch(r"t..://(.*):(\d+)", self.gateway.url).groups()
        self.address = host, int(port)

    def tearDown(self):
        self.assertEqual(self.gateway.stop(), 0)
        self.assertEqual(self.server.stop(), 0)

    def environment(self):
        return environment(**(self.keys.environment("client", "alice") if self.keys else {}))

    def start(self, *words):
        return subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.gateway.url, "--", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment())

    def connect(self, say=b""):
        peer = socket.create_connection(self.address)
        self.addCleanup(peer.close)
        if say:
            peer.sendall(say)
        peer.setblocking(False)
        return peer

    def client_seconds(self):
        began = time.monotonic()
        client = self.start(program("count"))
        out, err = client.communicate(timeout=60)
        self.assertEqual((client.returncode, out, err), (0, "1\n", ""))
        return time.monotonic() - began

    @unittest.skipIf(MANY, "wants the small bound")
    def test_the_oldest_goes_never_the_newcomer(self):
        self.begin("--hello-timeout", "60")
        first = BEGINNINGS[self.link][:1]
        peers = [self.connect(first) for _ in range(BOUND + 30)]
        wait_for(lambda: all(map(closed, peers[:30])), 10, "the end of the oldest")
        self.assertFalse(any(map(closed, peers[30:])))
        # One that comes now has the place of the next oldest.
        newest = self.connect(first)
        wait_for(lambda: closed(peers[30]), 10, "the end of the next oldest")
        self.assertFalse(any(map(closed, [*peers[31:], newest])))
        self.assertIn("more connect than have a place", self.gateway.words())
        self.assertLess(self.gateway.words().count("turned away"), 20)  # of 31, in less than that many seconds

    @unittest.skipIf(MANY, "has nothing to do with their number")
    def test_who_says_nothing_has_two_seconds_and_who_is_slow_ten(self):
        self.begin("--hello-timeout", "6")
        beginning = BEGINNINGS[self.link]
        self.connect().close()
        wait_for(lambda: "said nothing and left" in self.gateway.words(), 20, "the end of the one who only left")
        silent, slow = self.connect(), self.connect(beginning[:1])
        began = time.monotonic()
        wait_for(lambda: closed(silent), 20, "the end of the silent one")
        self.assertFalse(closed(slow))
        for byte in beginning[1:12]:
            if closed(slow):
                break
            slow.send(bytes([byte]))
            time.sleep(1)
        wait_for(lambda: closed(slow), 20, "the end of the slow one")
        self.assertGreater(time.monotonic() - began, 4)
        self.assertIn("connected and said nothing", self.gateway.words())

    def test_clients_come_in_and_sessions_go_on(self):
        self.begin()
        alone = sorted(self.client_seconds() for _ in range(5))[2]
        trained = self.start(program("train"), STEPS).communicate(timeout=120)[0]
        session = self.start(program("train"), STEPS)
        trained = trained.removeprefix(session.stdout.readline())  # "training": it has begun
        waiting = subprocess.Popen([TESSERA, "run", "--quiet", "--server", self.gateway.url, "--", program("count"), "wait"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment())
        self.assertEqual(waiting.stdout.readline(), "1\n")
        crowd = Crowd(self.address, BEGINNINGS[self.link], EACH)
        try:
            time.sleep(3)  # they have come, and some have been turned away
            among = sorted(self.client_seconds() for _ in range(5))[2]
            print(f"{self.link}: a client takes {alone:.3f} s alone, {among:.3f} s among {3 * EACH} strangers, of whom "
                  f"{crowd.turned_away.value} were turned away", flush=True)
            if MANY:
                self.assertLess(among, 2 * alone + 0.2)
            # Every session comes back among them, to a process that knows nobody.
            os.kill(self.gateway.carrier(), signal.SIGKILL)
            out, err = session.communicate(timeout=120)
            self.assertEqual((session.returncode, out), (0, trained), err)
            waiting.communicate(timeout=60)
            self.assertEqual(waiting.returncode, 0)
            self.client_seconds()
        finally:
            crowd.stop()
        self.assertGreater(crowd.turned_away.value, 0)
        self.assertLess(len(self.gateway.words()), 100_000)


class StrangersOverTls(Strangers):
    link = "tls"

    @unittest.skipIf(MANY, "has nothing to do with their number")
    def test_their_threads_share_a_few_heaps(self):
        as_with_many_processors()
        self.addCleanup(os.environ.pop, "MALLOC_ARENA_MAX")
        self.begin("--hello-timeout", "60")
        peers = [self.connect(BEGINNINGS["tls"]) for _ in range(BOUND)]
        threads = f"/proc/{self.gateway.carrier()}/task"
        wait_for(lambda: len(os.listdir(threads)) > BOUND, 10, "a thread for each")
        self.client_seconds()
        self.assertLess(heaps(self.gateway.carrier()), HEAPS_MAX)
        self.assertLess(sum(map(closed, peers)), 2)  # one of them, for the client

    @unittest.skipIf(MANY, "has nothing to do with their number")
    def test_who_has_proved_a_name_and_says_nothing_goes_for_others(self):
        keys = self.keys.options("server", "localhost,127.0.0.1")
        self.gateway = Gateway(self.server.path, *keys, "--hello-timeout", "60", listen="tls://127.0.0.1:0")
        self.address = "127.0.0.1", int(self.gateway.url.rsplit(":", 1)[1])
        certificate, key, authority = self.keys.options("client", "mallory")[1::2]
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
        peers = []
        for _ in range(PROVED + 100):
            peer = context.wrap_socket(socket.create_connection(self.address), server_hostname="localhost")
            self.addCleanup(peer.close)
            peer.sendall(BEGINNINGS["tcp"][:4])
            peer.setblocking(False)
            peers.append(peer)
        # Whoever says nothing at all is dropped when all connections are looked at.
        silent = self.connect()
        wait_for(lambda: closed(silent), 20, "a look at all connections")
        wait_for(lambda: sum(map(left, peers)) > 95, 3, "the end of the oldest")  # one at each look would take 10
        self.assertFalse(any(map(left, peers[-100:])))
        self.client_seconds()


if __name__ == "__main__":
    if MANY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    unittest.main(verbosity=2)
