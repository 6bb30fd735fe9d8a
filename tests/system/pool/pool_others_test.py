#!/usr/bin/env python3
"""What one user does at a placer others do not notice: idle connections, parts of calls, jobs that wait.

usage: pool_others_test.py BUILD_DIRECTORY
"""

import multiprocessing
import os
import resource
import socket
import struct
import sys
import tempfile
import time
import unittest

from pool_case import PoolCase
from product import wait_for
from users import ALICE, BOB, become, can_be_another

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from control_flood import BEGIN, DATA, begin_call, call, field, frame  # noqa: E402

OFTEN = 5  # so often root asks meanwhile
SOFT = 256  # descriptors that the placer is started with; it may have more


class Crowd:
    """A process of another user (None: this one) that does `work` again and again until stop(), with a list of connections that it keeps; `rounds`
    tells how often."""

    def __init__(self, user, path, work):
        self.path, self.work = path, work
        self.rounds, self.going_on = multiprocessing.Value("l", 0), multiprocessing.Value("b", 1)
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(user,), daemon=True)
        self.process.start()

    def connect(self):
        peer = socket.socket(socket.AF_UNIX)
        peer.setblocking(False)
        try:
            peer.connect(self.path)
        except OSError:
            peer.close()  # the listener's queue is full
            return None
        return peer

    def run(self, user):
        os.closerange(3, 4096)  # a program would not see the end of its input while this has it open too
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
        if user is not None:
            become(user)()
        connections, test = [], os.getppid()
        while self.going_on.value and os.getppid() == test:
            self.work(self, connections)
            self.rounds.value += 1
            time.sleep(0.05)
        for peer in connections:
            peer.close()

    def stop(self):
        self.going_on.value = 0
        self.process.join(20)
        self.process.kill()


def be_idle(crowd, connections):
    """As many connections as a process may have; those that were closed are made again."""
    for peer in connections[:]:
        try:
            over = peer.recv(4096) == b""
        except BlockingIOError:
            continue
        except OSError:
            over = True
        if over:
            connections.remove(peer)
            peer.close()
    while len(connections) < 900:
        peer = crowd.connect()
        if peer is None:
            return
        connections.append(peer)


def say_parts(crowd, connections):
    """250 connections, each with 60 calls whose messages never end: of each a little more comes again and again."""
    if crowd.rounds.value % 20 == 0:
        for peer in connections:
            peer.close()
        connections.clear()
    begin = b"\0" + struct.pack(">I", 200 * 1024)
    streams = range(1, 2 * 60, 2)
    first = BEGIN + b"".join(begin_call(stream, "PlacementService/Place") + frame(DATA, 0, stream, begin + bytes(500)) for stream in streams)
    more = b"".join(frame(DATA, 0, stream, bytes(500)) for stream in streams)
    say = [(peer, more) for peer in connections]
    while len(connections) < 250:
        peer = crowd.connect()
        if peer is None:
            break
        connections.append(peer)
        say.append((peer, first))
    for peer, words in say:
        try:
            peer.recv(65536)
            peer.send(words)
        except OSError:
            try:
                peer.send(words)
            except OSError:
                pass
    time.sleep(0.05)


def wait_with_many(crowd, connections):
    """70 connections, each with 60 jobs that wait."""
    for peer in connections:
        peer.close()
    connections.clear()
    for number in range(70):
        peer = crowd.connect()
        if peer is None:
            break
        connections.append(peer)
        jobs = b"".join(call(2 * i + 1, "PlacementService/Place", field(1, f"{crowd.rounds.value}-{number}-{i}")) for i in range(60))
        try:
            peer.send(BEGIN + jobs)
        except OSError:
            pass
    time.sleep(0.95)


@unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
class Others(PoolCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        policy = os.path.join(place.name, "policy.toml")
        with open(policy, "w") as file:
            file.write(f'[roles]\n"uid:{ALICE}" = "tenant"\nothers = "nobody"\n')
        soft = SOFT if "idle" in self.id() else 4096
        self.begin("--policy", policy, devices=1, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, 16384)))
        os.chmod(self.pool.directory, 0o755)
        self.job = self.start("--gpu-share", "0.5")

    def check(self, user, work):
        crowd = Crowd(user, self.pool.url.removeprefix("unix:"), work)
        self.addCleanup(crowd.stop)
        wait_for(lambda: crowd.rounds.value > 0, 20, "the crowd")
        for _ in range(OFTEN):
            began = time.monotonic()
            self.ask("get", "servers")
            done = self.pool.run("--gpu-share", "0.25", "--wait", "20s", "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(time.monotonic() - began, 20)
        wait_for(lambda: crowd.rounds.value > 1, 20, "the crowd's going on")
        crowd.stop()
        self.assertEqual(self.pool.joins(), 1, self.pool.placer.words()[-2000:])  # no node was ended
        self.end(self.job)

    def test_idle_connections_of_nobody(self):
        self.check(BOB, be_idle)

    def test_parts_of_calls_of_nobody(self):
        self.check(BOB, say_parts)

    def test_jobs_of_a_tenant_that_wait(self):
        self.check(ALICE, wait_with_many)


if __name__ == "__main__":
    unittest.main(verbosity=2)
