#!/usr/bin/env python3
"""The sandbox of a pool's processes: what a node and a placer are told that were taken over, and that the pool works on with it.

usage: pool_sandbox_test.py BUILD_DIRECTORY
"""

import os
import re
import signal
import subprocess
import tempfile
import unittest

from pool import PLACER, Pool, Started
from pool_keys_test import age, show
from product import Keys, Server, TESSERA, alive, children, environment, free_port, program, status_of, uids_of, wait_for
from users import ALICE, become, can_be_another
import sandbox_system_test as root_with
import services_taken_over_test as taken

NODE_USER, PLACER_USER = 65526, 65527
# What libraries ask for, and do without: TCP_INQ, how fast the processor counts, how the kernel gives out memory, settings of OpenSSL, which none
# of Tessera's programs wants.
DONE_WITHOUT = r"setsockopt\(\w+, 0x6, 0x24\)|opening (/sys/devices/system/cpu/cpu0/\S+|/proc/sys/vm/overcommit_memory|/proc/sys/crypto/fips_enabled|\S+/openssl\.cnf) to read"
COMPLETE = can_be_another() and taken.complete()


def helper(pid):
    """The process that opens and connects for this one, which has no other child."""
    found, = children(pid)
    return found


@unittest.skipUnless(COMPLETE, "needs root, a build that others can read, and a machine that can do all of it")
class ProcessesThatWereTakenOver(taken.TakenOver):
    def check_pool(self, users, user=None):
        before = become(user, user) if user is not None else None
        home = {"HOME": "/nonexistent"}
        pool = Pool("--sandbox", "require", before=before, owner=user, server_options=("--warm-workers", "0", "--sandbox", "require"), server_changes=home)
        self.addCleanup(pool.stop)
        server, = pool.servers
        node, placer = server.node(), pool.placer.process.pid
        for pid, its_user in zip((node, placer), users):
            self.assertEqual(uids_of(pid), {its_user})
            status = status_of(pid)
            self.assertEqual([int(status[name], 16) for name in ("CapEff", "CapPrm")], [0, 0])
            for thread in os.listdir(f"/proc/{pid}/task"):
                self.assertEqual(status_of(f"{pid}/task/{thread}")["Seccomp"], "2")
        # That of an ordinary user's placer has to know users by their numbers.
        self.assertFalse(os.path.exists(f"/proc/{node}/root/etc/passwd"))
        self.assertEqual(os.path.exists(f"/proc/{placer}/root/etc/passwd"), user is not None)
        self.check({"node": node, "placer": placer})
        # They serve on, as if nothing had been.
        done = subprocess.run([TESSERA, "run", "--placer", pool.url, "--gpu-share", "0.5", "--", program("copies")], capture_output=True, text=True,
                              timeout=60, cwd="/", env=environment(**home), preexec_fn=before)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(server.node(), node)
        self.assertEqual(pool.joins(), 1)

    def test_of_roots_server(self):
        self.check_pool((NODE_USER, PLACER_USER))

    @unittest.skipUnless(COMPLETE and taken.complete(become(ALICE, ALICE)), "this machine cannot do all of it for an ordinary user")
    def test_of_an_ordinary_users_server(self):
        self.check_pool((ALICE, ALICE), ALICE)


class ProcessesAndTheirHelpers(unittest.TestCase):
    def begin(self, *options, **more):
        self.pool = Pool(*options, server_options=("--warm-workers", "0", *options), **more)
        self.addCleanup(self.pool.stop)
        self.server, = self.pool.servers
        wait_for(lambda: "has taken this server" in self.server.words(), 10, "what the first node says")

    def run_a_job(self):
        done = self.pool.run("--gpu-share", "0.5", "--", program("copies"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def another_node_than(self, first, times):
        wait_for(lambda: self.server.node() not in (None, first), 10, "another node")
        wait_for(lambda: self.server.words().count("has taken this server") == times, 20, "the server's joining")
        self.run_a_job()

    def test_a_node_and_its_helper_end_together_and_another_follows(self):
        self.begin()
        node = self.server.node()
        beside = helper(node)
        os.kill(node, signal.SIGKILL)
        wait_for(lambda: not alive(beside), 10, "the helper's end")
        self.another_node_than(node, 2)
        node = self.server.node()
        os.kill(helper(node), signal.SIGKILL)
        wait_for(lambda: not alive(node), 10, "the node's end")
        self.another_node_than(node, 3)
        self.assertIn("the process that connects for this one has ended", self.server.words())
        node = self.server.node()
        beside = helper(node)
        self.server.kill()
        wait_for(lambda: not alive(node) and not alive(beside), 10, "the end of both with their tesserad")

    def test_a_placer_and_its_helper_end_together(self):
        self.begin()
        placer = self.pool.placer
        beside = helper(placer.process.pid)
        placer.kill()
        wait_for(lambda: not alive(beside), 10, "the helper's end")
        placer = self.pool.placer = self.pool.start_placer()
        os.kill(helper(placer.process.pid), signal.SIGKILL)
        self.assertEqual(placer.process.wait(20), 1)
        placer.process.stdout.close()
        self.assertIn("the process that opens files for this one has ended", placer.words())
        # One that ends in order has no helper to leave behind, and no socket.
        placer = self.pool.placer = self.pool.start_placer()
        socket = self.pool.url.removeprefix("unix:")
        beside = helper(placer.process.pid)
        self.assertTrue(os.path.exists(socket))
        self.assertEqual(placer.stop(), 0)
        self.assertFalse(os.path.exists(socket))
        wait_for(lambda: not alive(beside), 10, "the helper's end")
        self.pool.placer = self.pool.start_placer()
        self.run_a_job()

    def test_without_a_sandbox_it_is_the_same(self):
        self.begin("--sandbox", "off")
        for pid in (self.server.node(), self.pool.placer.process.pid):
            self.assertEqual(status_of(pid)["Seccomp"], status_of(os.getpid())["Seccomp"])
        self.run_a_job()

    def by_tls(self, *options, before=None, with_a_job=True):
        """A placer that signs, a server whose node comes to it by TLS with a certificate that ends, and a job."""
        keys = Keys()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        policy = os.path.join(directory.name, "policy.toml")
        with open(policy, "w") as file:
            file.write('[roles]\n"name:gpu7" = "server"\nothers = "tenant"\n')
        url = f"tls://127.0.0.1:{free_port()}"
        placer = Started(os.path.join(directory.name, "placer.log"), PLACER, "--listen", url, "--store", "memory", "--policy", policy, "--log", "info",
                         "--sign-with", keys.authority, *keys.options("server", "127.0.0.1,localhost"), *options, before=before)
        self.addCleanup(placer.stop)
        path = age(keys, "host", "gpu7,127.0.0.1", -20, 2)
        ended = show(path)["ends"]
        server = Server("--listen", "tls://127.0.0.1:0", "--placer", url, *keys.options("host", "gpu7,127.0.0.1"), *options, before=before, log="warning")
        self.addCleanup(server.stop)
        wait_for(lambda: "has joined" in placer.words(), 20, "the server's joining")
        wait_for(lambda: show(path)["ends"] > ended, 20, "the new certificate")
        if with_a_job:
            done = subprocess.run([TESSERA, "run", *keys.options("client", "alice"), "--gpu-share", "0.5", "--", program("copies")], capture_output=True,
                                  text=True, timeout=60, env=environment(TESSERA_PLACER=url))
            self.assertEqual(done.returncode, 0, done.stderr + server.words())
        node, = (pid for pid, words in server.children_by_words().items() if "--daemon-fd" in words)
        return placer, server, node

    def test_nothing_that_it_refuses_is_needed(self):
        placer, server, _ = self.by_tls("--sandbox", "log")
        said = (placer.words() + server.words()).splitlines()
        asked = [line for line in said if re.search("tessera-(node|placer)", line) and "would refuse" in line]
        self.assertEqual([line for line in asked if not re.search(DONE_WITHOUT, line)], [])

    @unittest.skipUnless(COMPLETE, "needs root, on a machine that can do all of it")
    def test_root_with_less(self):
        for less, before in root_with.RootWithLess.LESS.items():
            with self.subTest(root_with=less):
                # With a broker in a user namespace, where root has no number, nobody makes vGPUs.
                placer, server, node = self.by_tls(before=before, with_a_job=less != "no mounts")
                for pid, user in ((node, NODE_USER), (placer.process.pid, PLACER_USER)):
                    status = status_of(pid)
                    self.assertEqual(int(status["CapEff"], 16) | int(status["CapPrm"], 16), 0)
                    self.assertEqual(status["Seccomp"], "2")
                    self.assertEqual(uids_of(pid), {user if less == "no mounts" else 0}, placer.words() + server.words())


if __name__ == "__main__":
    unittest.main(verbosity=2)
