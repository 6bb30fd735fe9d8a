#!/usr/bin/env python3
"""A server that lacks descriptors: it rests, says so once, and goes on when there is room; sessions go on meanwhile. A gateway in a control
group with little memory: whose session does not fit is refused, and no other is ended for it.

usage: shortage_test.py BUILD_DIRECTORY
"""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest

from product import TESSERA, Gateway, Server, environment, program, wait_for

# What a process that rests may use in the seconds that a test looks at it, and write.
PROCESSOR_S, LOG_BYTES = 0.5, 4096


def processor_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        words = stat.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def status_of(url):
    return subprocess.run([TESSERA, "status", "--server", url], capture_output=True, text=True, timeout=60, env=environment())


class MemoryGroup:
    """A control group of memory for processes of a test, of either version."""

    def __init__(self, mib):
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            self.path = os.path.join(root, f"tessera-test-{os.getpid()}")
            try:
                os.mkdir(self.path)
                with open(os.path.join(self.path, limit), "w") as file:
                    file.write(str(mib << 20))
                subprocess.run("true", preexec_fn=self.enter, check=True)
                return
            except (OSError, subprocess.SubprocessError) as problem:
                self.remove()
                why = problem
        raise unittest.SkipTest(f"no control group of memory can be made here: {why}")

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as processes:
            processes.write(str(os.getpid()))

    def remove(self):
        def is_away():
            if os.path.isdir(self.path):
                try:
                    os.rmdir(self.path)
                except OSError:
                    return False  # a process is on its way out
            return True

        wait_for(is_away, 20, "the end of all in the group")


def links_of(gateway):
    """What has connected to it. The log does not tell how many: it writes a line that is repeated once."""
    port = f":{int(gateway.url.rsplit(':', 1)[1]):04X}"
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file]
    return [row for row in rows if row[1].endswith(port) and row[3] == "01"]  # TCP_ESTABLISHED


class Shortage(unittest.TestCase):
    def connect(self, server):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(server.path)
        return peer

    def check_rests(self, pid, words, connect):
        """While more connect than there are descriptors for, it neither spins nor floods its log; afterwards it serves."""
        peers = [connect() for _ in range(60)]
        wait_for(lambda: "rests until there is room" in words(), 10, "the line in the log")
        used, written = processor_s(pid), len(words())
        time.sleep(2)
        self.assertLess(processor_s(pid) - used, PROCESSOR_S)
        self.assertLess(len(words()) - written, LOG_BYTES, words()[-LOG_BYTES:])
        for peer in peers:
            peer.close()

    def test_a_server_without_descriptors(self):
        server = Server()
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (40, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
        self.check_rests(pid, server.words, lambda: self.connect(server))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        done = status_of(server.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        wait_for(lambda: "accepting clients goes on" in server.words(), 10, "the line in the log")
        self.assertEqual(server.stop(), 0)

    def test_descriptors_are_divided_by_the_limit_that_it_raises(self):
        # An eighth of the limit is for who has said nothing: of the one that it starts with 16, of the one that holds 128.
        server = Server(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 1024)))
        peers = [self.connect(server) for _ in range(60)]
        done = status_of(server.url)  # behind all of them
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("more connect than have a place", server.words())
        for peer in peers:
            peer.close()
        self.assertEqual(server.stop(), 0)

    def test_a_gateway_without_descriptors(self):
        server = Server()
        gateway = Gateway(server.path, "--sandbox", "off")  # else its limits are another user's, and root of containers may not change them
        carrier = gateway.carrier()
        before = resource.prlimit(carrier, resource.RLIMIT_NOFILE, (40, resource.prlimit(carrier, resource.RLIMIT_NOFILE)[1]))
        port = int(gateway.url.rsplit(":", 1)[1])
        self.check_rests(carrier, gateway.words, lambda: socket.create_connection(("127.0.0.1", port)))
        resource.prlimit(carrier, resource.RLIMIT_NOFILE, before)
        done = status_of(gateway.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(server.stop(), 0)

    def test_a_gateway_with_little_memory(self):
        # A session has 64 MiB there for what it copies, and its rings. All may have three quarters of the group's, so two come in.
        group = MemoryGroup(256)
        self.addCleanup(group.remove)
        server = Server()
        gateway = Gateway(server.path, before=group.enter)
        carrier = gateway.carrier()

        def start():
            client = subprocess.Popen([TESSERA, "run", "-q", "--server", gateway.url, "--", program("copy_loop")], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, env=environment())
            self.addCleanup(client.communicate)
            self.addCleanup(client.kill)
            return client

        clients = [start() for _ in range(8)]
        said = [client.stdout.readline() for client in clients]
        self.assertEqual(sorted(said), [""] * 6 + ["copying\n"] * 2)
        for client in (client for client, line in zip(clients, said) if not line):
            self.assertRegex(client.communicate(timeout=20)[1], "a session needs [67]. MiB of the gateway's memory. Each may have 128 MiB and all together 192 MiB")
        those_in = [client for client, line in zip(clients, said) if line]
        time.sleep(2)  # until the memory of both has been used
        self.assertEqual([client.poll() for client in those_in], [None, None])
        # Both come back to a process that counts them too; the place of who ends is another's.
        os.kill(carrier, signal.SIGKILL)
        wait_for(lambda: carrier not in gateway.carriers() and len(links_of(gateway)) == 2, 20, "the sessions' return")
        self.assertEqual(start().stdout.readline(), "")
        those_in[0].kill()
        wait_for(lambda: start().stdout.readline() == "copying\n", 20, "another's session")
        self.assertNotIn("times in a row", gateway.words())
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(server.stop(), 0)

    def test_a_poll_that_fails_ends_no_session(self):
        server = Server()
        client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", server.url, "--", program("count"), "wait"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        self.assertEqual(client.stdout.readline(), "1\n")
        pid = server.process.pid
        # Fewer than it waits for: poll(2) fails as long as that is so.
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
        wait_for(lambda: "waiting for clients rests" in server.words(), 10, "the line in the log")
        used = processor_s(pid)
        time.sleep(2)
        self.assertLess(processor_s(pid) - used, PROCESSOR_S)
        self.assertEqual(len(server.workers()), 1, server.words())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        wait_for(lambda: "waiting for clients goes on" in server.words(), 10, "the line in the log")
        client.communicate(timeout=30)
        self.assertEqual(client.returncode, 0)
        self.assertEqual(status_of(server.url).returncode, 0)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
