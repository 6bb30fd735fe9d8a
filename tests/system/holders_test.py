#!/usr/bin/env python3
"""Two users of one server, of whom one takes all that he can get: the other begins in his usual time and gets what he needs.

usage: holders_test.py BUILD_DIRECTORY
"""

import ctypes
import multiprocessing
import os
import re
import resource
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from product import CLIENT, TESSERA, Gateway, Server, Session, closed, environment, program, the_server, wait_for, words_of
from users import ALICE, BOB, CAROL, become, can_be_another, start_as


def finish(client):
    out, err = client.communicate(timeout=100)
    return client.returncode, out, err


def be_silent(path, count, pipe):
    become(ALICE)()
    peers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
    for peer in peers:
        peer.connect(path)
        peer.setblocking(False)
    pipe.send("connected")
    while pipe.recv():
        pipe.send(sum(not closed(peer) for peer in peers))


class TwoUsers(unittest.TestCase):
    def serve(self, *options, **more):
        self.server = Server("--socket-mode", "666", *options, **more)
        self.addCleanup(self.server.stop)
        os.chmod(self.server.directory.name, 0o755)

    def start(self, user, *words, **more):
        client = start_as(user, self.server.url, *words, **more)
        self.addCleanup(self.end, client)
        return client

    def end(self, client):
        if client.poll() is None:
            client.kill()
        client.communicate()

    def waiting(self, user):
        """A session that stays until its program's input ends."""
        return self.start(user, program("count"), "wait")

    def one_of_bob(self):
        """He is served while Alice is at it; how long it took."""
        began = time.monotonic()
        self.assertEqual(finish(self.start(BOB, program("count"))), (0, "1\n", ""))
        return time.monotonic() - began


class Links(unittest.TestCase):
    def waits(self, url):
        told = the_server(subprocess.run([TESSERA, "status", "--server", url, "-o", "json"], capture_output=True, text=True, env=environment()).stdout)
        return sum(holder["starts_waiting"] for holder in told["holders"])

    def test_the_server_counts_the_sessions_of_its_gateway(self):
        """Who finds no place waits there, as on its host, and more places are for other hosts too."""
        with tempfile.TemporaryDirectory() as directory:
            options = os.path.join(directory, "options.toml")

            def allow(sessions):
                with open(options, "w") as file:
                    file.write(f"max-sessions = {sessions}\n")

            allow(2)
            server = Server("--config", options, "--listen", "tcp://127.0.0.1:0")
            self.addCleanup(server.stop)
            self.assertIn("--server-counts", words_of(server.gateways()[0]))
            url = re.search(r"tcp://127\.0\.0\.1:\d+", server.ready)[0]
            sessions = [Session(url) for _ in range(2)]
            third = subprocess.Popen([TESSERA, "run", "-q", "--wait", "60s", "--server", url, "--", program("count")], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, env=environment())
            wait_for(lambda: self.waits(url) == 1, 20, "one that waits at the server")
            sessions.pop().end()
            self.assertEqual(finish(third), (0, "1\n", ""))
            allow(4)
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "max-sessions = 4" in server.words(), 10, "the new number")
            sessions += [Session(url) for _ in range(3)]
            self.assertEqual([session.end() for session in sessions], [0] * 4)

    def test_a_gateway_lets_more_than_its_number_wait_at_a_server_that_counts(self):
        server = Server()
        gateway = Gateway(server.path, "--max-sessions", "1", "--server-counts")
        sessions = [Session(gateway.url) for _ in range(2)]
        self.assertEqual([session.end() for session in sessions], [0, 0])
        self.assertEqual((gateway.stop(), server.stop()), (0, 0))


# Begins $0 128 times at once. The last 32 have their places for as long as it takes Bob to begin on a busy machine.
BURST = 'i=0; while [ $i -lt 128 ]; do sleep $((1 + i / 32)) | "$0" wait & i=$((i + 1)); done; echo all have begun >&2; wait'


@unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
class Sessions(TwoUsers):
    def test_a_burst_passes_and_nobody_waits_for_all_of_it(self):
        self.serve("--max-sessions", "16")
        out = tempfile.TemporaryFile()
        self.addCleanup(out.close)
        burst = self.start(ALICE, "/bin/sh", "-c", BURST, program("count"), stdout=out)
        self.assertEqual(burst.stderr.readline(), "all have begun\n")
        seconds = self.one_of_bob()
        left = 128 - os.fstat(out.fileno()).st_size // 2
        self.assertEqual(finish(burst)[::2], (0, ""))
        self.assertEqual(os.pread(out.fileno(), 1024, 0), b"1\n" * 128)
        print(f"Bob waited {seconds:.2f} s; {left} of Alice's 128 were left then", flush=True)
        self.assertGreater(left, 5)

    def test_64_loaders_beside_their_program(self):
        self.serve()
        loaders = [self.waiting(ALICE) for _ in range(65)]
        for loader in loaders:
            self.assertEqual(loader.stdout.readline(), "1\n")
        self.assertEqual(len(self.server.workers()), 65)

    def test_the_last_places_are_kept_for_others(self):
        self.serve("--max-sessions", "16", "--start-wait", "3")
        alices = [self.waiting(ALICE) for _ in range(18)]
        wait_for(lambda: len(self.server.workers()) == 14, 30, "the beginning of 14 sessions")
        self.one_of_bob()
        # Four have waited for as long as they may.
        wait_for(lambda: self.server.words().count("14 sessions are yours") == 4, 30, "four refusals")
        self.assertEqual(len(self.server.workers()), 14)

    def run_of_alice(self, *options):
        """`tessera run` of hers, which looks for a place before it starts the program."""
        client = start_as(ALICE, "", TESSERA, "run", "--quiet", "--server", self.server.url, *options, "--", program("count"))
        self.addCleanup(self.end, client)
        return client

    def test_who_has_no_place_is_told_before_his_program_starts(self):
        self.serve("--max-sessions", "16", "--start-wait", "2")
        alices = [self.waiting(ALICE) for _ in range(14)]
        wait_for(lambda: len(self.server.workers()) == 14, 30, "the beginning of 14 sessions")
        code, out, err = finish(self.run_of_alice())
        self.assertEqual((code, out), (83, ""), err)
        self.assertRegex(err, r"\Atessera: 14 sessions are yours, and the server keeps the rest of its 16 for others: [^\n]+\n\Z")
        self.assertEqual(finish(self.run_of_alice("--vgpu", "nowhere"))[0], 79)
        self.one_of_bob()
        later = self.run_of_alice()
        time.sleep(0.5)
        self.assertIsNone(later.poll())
        finish(alices[0])
        self.assertEqual(finish(later), (0, "1\n", ""))

    def test_places_that_get_free_go_to_who_has_fewer(self):
        self.serve("--max-sessions", "4")
        first = [self.waiting(ALICE) for _ in range(4)]
        for client in first:
            self.assertEqual(client.stdout.readline(), "1\n")
        more = [self.waiting(ALICE) for _ in range(4)]
        time.sleep(0.5)  # they wait before Bob's come
        bobs = [self.waiting(BOB) for _ in range(3)]
        time.sleep(0.5)
        for client in first[:2]:
            finish(client)

        def begun(clients):
            return len(select.select([client.stdout for client in clients], [], [], 0)[0])

        wait_for(lambda: begun(bobs) == 2, 30, "the beginning of two of Bob's")
        self.assertEqual(begun(more), 0)
        self.assertEqual(len(self.server.workers()), 4)

    def test_who_leaves_while_he_waits_leaves_nothing(self):
        self.serve("--max-sessions", "1")
        first = self.waiting(ALICE)
        self.assertEqual(first.stdout.readline(), "1\n")
        before = self.server.descriptors()
        waiting = [self.waiting(BOB) for _ in range(5)]
        wait_for(lambda: self.server.descriptors() == before + 5, 10, "five that wait")
        for client in waiting:
            client.kill()
        wait_for(lambda: self.server.descriptors() == before, 10, "their end")
        last = self.start(BOB, program("count"))
        finish(first)
        self.assertEqual(finish(last), (0, "1\n", ""))


@unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
class Strangers(TwoUsers):
    def silent(self, count):
        """So many connections of Alice that say nothing, in a process of hers; asked on the pipe it says how many are left."""
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        process = context.Process(target=be_silent, args=(self.server.path, count, theirs), daemon=True)
        process.start()
        self.addCleanup(process.kill)
        self.assertEqual(ours.recv(), "connected")
        return ours

    def left(self, crowd):
        crowd.send("how many")
        return crowd.recv()

    def test_silent_connections_shut_nobody_out(self):
        self.serve()
        crowds = [self.silent(150) for _ in range(3)]
        self.one_of_bob()
        # Of one user 256 have a place, and those for two seconds.
        self.assertLessEqual(sum(map(self.left, crowds)), 256)
        self.assertIn("more connect than have a place", self.server.words())
        wait_for(lambda: sum(map(self.left, crowds)) == 0, 10, "the end of all of them")
        self.assertIn("connected and said nothing", self.server.words())

    def test_nor_do_they_shut_out_the_user_whose_they_are(self):
        self.serve()
        crowd = [self.silent(300) for _ in range(2)]
        self.assertEqual(finish(self.start(ALICE, program("count"))), (0, "1\n", ""))
        del crowd


OUT_OF_MEMORY = 2


class Calls:
    """What a Program is told to do, by name. Each gives the result of the last call."""

    def __init__(self):
        self.cuda = ctypes.CDLL(os.path.join(CLIENT, "libcuda.so.1"))
        context = ctypes.c_void_p()
        begun = self.cuda.cuInit(0) or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or self.cuda.cuCtxSetCurrent(context)
        assert begun == 0, begun
        self.pinned = []

    def share(self, count):
        """Makes and shares so many blocks; how many it could."""
        block, handle = ctypes.c_uint64(), ctypes.create_string_buffer(64)
        for done in range(count):
            result = self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(512)) or self.cuda.cuIpcGetMemHandle(handle, block)
            if result:
                return result, done
        return 0, count

    def pin(self, count, size):
        """Pins so many pieces of host memory."""
        piece = ctypes.c_void_p()
        for done in range(count):
            result = self.cuda.cuMemHostAlloc(ctypes.byref(piece), ctypes.c_size_t(size), 0)
            if result:
                return result, done
            self.pinned.append(piece.value)
        return 0, count

    def unpin(self, count):
        return max(self.cuda.cuMemFreeHost(ctypes.c_void_p(self.pinned.pop())) for _ in range(count)), count


def run_calls(user, url, errors, pipe):
    become(user)()
    os.dup2(errors, 2)
    os.environ.update(TESSERA_SERVER=url, HOME="/nonexistent")
    calls = Calls()
    pipe.send("begun")
    while words := pipe.recv():
        pipe.send(getattr(calls, words[0])(*words[1:]))


class Program:
    """A program of a user that makes calls as it is told."""

    def __init__(self, test, user):
        self.errors = tempfile.TemporaryFile()
        test.addCleanup(self.errors.close)
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(
            target=run_calls, args=(user, test.server.url, self.errors.fileno(), theirs), daemon=True)
        self.process.start()
        test.addCleanup(self.end)
        theirs.close()
        self.pipe.recv()

    def end(self):
        self.process.kill()
        self.process.join()

    def do(self, *words):
        self.pipe.send(words)
        return self.pipe.recv()

    def said(self):
        return os.pread(self.errors.fileno(), 65536, 0).decode()


@unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
class Shares(TwoUsers):
    def test_one_user_does_not_take_the_descriptors_of_others(self):
        # Of the shares' part of so few Alice can have a third.
        self.serve(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048)))
        alices = [Program(self, ALICE) for _ in range(2)]
        most = alices[0].do("share", 200)[1]
        result, more = alices[1].do("share", 2048)
        self.assertEqual((most, result), (200, OUT_OF_MEMORY))
        self.assertGreater(more, 50)
        self.assertIn(f"programs of this user share {most + more} objects", alices[1].said())
        self.assertEqual(alices[1].said().count("\n"), 1)
        self.assertEqual(alices[0].do("share", 1), (OUT_OF_MEMORY, 0))
        bob = Program(self, BOB)
        self.assertEqual(bob.do("share", 150), (0, 150))
        self.assertEqual(bob.said(), "")
        self.one_of_bob()
        alices[0].end()
        wait_for(lambda: alices[1].do("share", 1) == (0, 1), 10, "room when a session has ended")

    def test_a_program_shares_4096_objects(self):
        self.serve()
        for user in (ALICE, BOB):
            self.assertEqual(Program(self, user).do("share", 4096), (0, 4096))


MIB = 1 << 20


@unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
class HostMemory(TwoUsers):
    """Of 512 MiB a quarter is kept for others, of which the first that comes may have half."""

    def test_one_user_does_not_take_the_memory_of_others(self):
        self.serve("--host-memory", "512")
        alices, bob = [Program(self, ALICE) for _ in range(2)], Program(self, BOB)
        self.assertEqual(alices[0].do("pin", 6, 32 * MIB), (0, 6))
        self.assertEqual(alices[1].do("pin", 16, 32 * MIB), (OUT_OF_MEMORY, 6))
        self.assertIn("programs of this user hold as much as the server has room for beside others'", alices[1].said())
        self.assertEqual(bob.do("pin", 2, 32 * MIB), (0, 2))
        self.assertEqual(bob.said(), "")
        # What Alice frees is Bob's as long as he asks for it.
        self.assertEqual(bob.do("pin", 1, 128 * MIB)[0], OUT_OF_MEMORY)
        self.assertEqual(alices[0].do("unpin", 6), (0, 6))
        self.assertEqual(alices[1].do("pin", 1, 64 * MIB)[0], OUT_OF_MEMORY)
        wait_for(lambda: bob.do("pin", 1, 128 * MIB) == (0, 1), 10, "room for Bob")
        # What a session had goes with it.
        for alice in alices:
            alice.end()
        wait_for(lambda: not self.server.workers()[1:], 10, "the end of Alice's sessions")
        self.assertEqual(Program(self, ALICE).do("pin", 4, 32 * MIB), (0, 4))


@unittest.skipUnless(can_be_another(), "needs root, and programs that every user can reach")
class Told(TwoUsers):
    def told(self, *as_user):
        done = subprocess.run([TESSERA, "status", "--server", self.server.url, "--output", "json"], capture_output=True, text=True, timeout=60, cwd="/",
                              env=environment(HOME="/nonexistent"), preexec_fn=become(*as_user) if as_user else None)
        self.assertEqual(done.returncode, 0, done.stderr)
        return the_server(done.stdout)["holders"]

    def test_status_tells_a_holder_his_own_and_administrators_all(self):
        self.serve("--max-sessions", "2")
        alice, bob = Program(self, ALICE), Program(self, BOB)
        self.assertEqual(alice.do("share", 3), (0, 3))
        self.assertEqual(bob.do("pin", 1, 100 * MIB), (0, 1))
        self.waiting(BOB)
        of_alice = {"name": f"uid:{ALICE}", "sessions": 1, "starts_waiting": 0, "shared_objects": 3, "descriptors": 3, "host_memory_bytes": 0}
        of_bob = {"name": f"uid:{BOB}", "sessions": 1, "starts_waiting": 1, "shared_objects": 0, "descriptors": 0, "host_memory_bytes": 128 * MIB}
        wait_for(lambda: self.told() == [of_alice, of_bob], 10, "a start that waits")
        self.assertEqual(self.told(ALICE), [of_alice])
        self.assertEqual(self.told(BOB), [of_bob])
        self.assertEqual(self.told(CAROL), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
