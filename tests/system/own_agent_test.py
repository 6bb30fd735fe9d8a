#!/usr/bin/env python3
"""The library alone, with TESSERA_SERVER naming another host: it starts the agent itself, and the program notices nothing.

usage: own_agent_test.py BUILD_DIRECTORY
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from product import CLIENT, Gateway, Keys, Server, children, environment, program, wait_for, words_of

CHILDREN = """
import ctypes, os, signal
told = []
signal.signal(signal.SIGCHLD, lambda *_: told.append("a signal"))
os.closerange(3, 4096)
cuda = ctypes.CDLL("libcuda.so.1")
result = cuda.cuInit(0)
try:
    found = os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    found = "no child"
print(result, told, found)
"""


def agents(url):
    """Those to that server: the processes that were started as agents, without their children."""
    found = [int(name) for name in filter(str.isdigit, os.listdir("/proc")) if url in words_of(int(name)) and "--owner-fd" in words_of(int(name))]
    return sorted(set(found) - {child for pid in found for child in children(pid)})


class OwnAgent(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.gateway = Gateway(self.server.path)
        self.addCleanup(self.gateway.stop)
        self.runtime = tempfile.TemporaryDirectory()
        self.addCleanup(self.runtime.cleanup)

    def run_alone(self, *words, library=CLIENT, url=None, **more):
        env = environment(TESSERA_SERVER=url or self.gateway.url, LD_LIBRARY_PATH=library, XDG_RUNTIME_DIR=self.runtime.name)
        return subprocess.run(words, capture_output=True, text=True, timeout=60, env=env, **more)

    def check_nothing_is_left(self):
        wait_for(lambda: not agents(self.gateway.url), 20, "the end of the agent")
        wait_for(lambda: not os.listdir(self.runtime.name), 10, "the end of its directory")

    def test_a_program_runs_and_leaves_nothing(self):
        done = self.run_alone(program("count"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1\n", ""))
        self.check_nothing_is_left()

    def test_processes_of_one_tree_share_it(self):
        """Eight that start at once, and one that comes later; it has none of what they had open."""
        reader, writer = os.pipe()
        script = "for i in 1 2 3 4 5 6 7 8; do $0 & done; wait; $0; echo; read line"
        env = environment(TESSERA_SERVER=self.gateway.url, LD_LIBRARY_PATH=CLIENT, XDG_RUNTIME_DIR=self.runtime.name)
        with subprocess.Popen(["bash", "-c", script, program("count")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
                              pass_fds=(writer,)) as tree:
            os.close(writer)
            self.assertEqual([tree.stdout.readline() for _ in range(10)], ["1\n"] * 9 + ["\n"])
            self.assertEqual(len(agents(self.gateway.url)), 1)
            agent = agents(self.gateway.url)[0]
            self.assertNotIn(os.readlink(f"/proc/self/fd/{reader}"), [os.readlink(f"/proc/{agent}/fd/{fd}") for fd in os.listdir(f"/proc/{agent}/fd")])
            tree.communicate("\n", timeout=20)
        os.close(reader)
        self.check_nothing_is_left()

    def test_who_shows_other_keys_has_an_agent_of_its_own(self):
        keys = Keys()
        gateway = Gateway(self.server.path, *keys.options("server", "localhost,127.0.0.1"), listen="tls://127.0.0.1:0")
        self.addCleanup(gateway.stop)
        settings = [" ".join(f"{name}={value}" for name, value in keys.environment("client", name).items()) for name in ("alice", "bob")]
        done = self.run_alone("bash", "-c", "; ".join(f"{words} {program('count')}" for words in settings), url=gateway.url)
        self.assertEqual((done.stdout, done.stderr), ("1\n1\n", ""))
        self.assertEqual(re.findall("a session of ([a-z]+) .*begun", gateway.words()), ["alice", "bob"])

    def test_the_program_has_no_child_and_hears_of_none(self):
        done = self.run_alone(sys.executable, "-c", CHILDREN)
        self.assertEqual((done.stdout, done.stderr), ("0 [] no child\n", ""))
        self.check_nothing_is_left()

    def test_without_an_agent_beside_the_library(self):
        alone = tempfile.TemporaryDirectory()
        self.addCleanup(alone.cleanup)
        shutil.copy(f"{CLIENT}/libcuda.so.1", alone.name)
        done = self.run_alone(program("count"), library=alone.name)
        self.assertRegex(done.stderr, "is on another host, and there is no tessera-agent beside this library.*tessera run --server")

    def test_a_directory_of_another_form_is_not_used(self):
        os.chmod(self.runtime.name, 0o500)
        done = self.run_alone(program("count"), url="tcp://127.0.0.1:99999")
        os.chmod(self.runtime.name, 0o700)
        self.assertRegex(done.stderr, "the agent for tcp://127.0.0.1:99999 did not start: .*tessera run")


if __name__ == "__main__":
    unittest.main()
