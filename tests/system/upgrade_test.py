#!/usr/bin/env python3
"""A server of one release beside a gateway or a broker of another, as an upgrade leaves them when it has replaced files of an installation: who is
refused, what is said, and that sessions notice nothing. The other release is this one's program, behind a script that gives it another number where it says
which it is.

usage: upgrade_test.py BUILD_DIRECTORY
"""

import os
import re
import signal
import subprocess
import sys
import unittest

from installation import InstallationCase
from product import TESSERA, Session, children, environment, wait_for, words_of

RELEASE = subprocess.run([TESSERA, "--version"], capture_output=True, text=True).stdout.split()[1]
OTHER = RELEASE[:-1] + ("1" if RELEASE[-1] != "1" else "2")

# What they begin with goes through the script, in which `old` stands where they say who they are.
BEGIN = """#!{python}
import os, socket, subprocess, sys
words = sys.argv[1:]
def put(option, value):
    at = words.index(option) + 1
    before, words[at] = int(words[at]), str(value)
    return before
def say(text):
    assert {old!r} in text, text
    return text.replace({old!r}, {new!r})
put("--parent-pid", os.getpid())
"""
BROKER = BEGIN + """
mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
its.set_inheritable(True)
line = socket.socket(fileno=put("--line-fd", its.fileno()))
real = subprocess.Popen([{real!r}, *words], close_fds=False)
its.close()
mine.send(line.recv(1 << 20))
line.send(say(mine.recv(1 << 20)))
while line.recv(1 << 20):  # until tesserad has ended
    pass
"""
GATEWAY = BEGIN + """
said, its = os.pipe()
os.set_inheritable(its, True)
line = put("--ready-fd", its)
os.set_inheritable(line, False)
real = subprocess.Popen([{real!r}, *words], close_fds=False)
os.write(line, say(os.read(said, 4096)))
os.close(line)
real.wait()
"""


class Upgrade(InstallationCase):
    def put_other(self, name, script, old=RELEASE, new=OTHER):
        self.put(name, script.format(python=sys.executable, real=self.real(name), old=old.encode(), new=new.encode()).encode())

    def refused(self, words, *options):
        server = self.serve(*options)
        self.assertEqual((server.ready, server.process.wait(30)), ("", 4), server.words())
        self.assertIn(f"tesserad: {words}, this server of {RELEASE}: install the same release of both", server.words())
        server.discard()

    def carriers(self, gateway):
        return {pid for pid in children(gateway) if "--carry-fd" in words_of(pid)}

    def file_of(self, pid):
        try:
            return os.stat(f"/proc/{pid}/exe").st_ino
        except (FileNotFoundError, ProcessLookupError):
            return None

    def test_a_gateway_of_another_release_is_refused(self):
        self.put_other("tessera-gateway", GATEWAY)
        self.refused(f"tessera-gateway is of release {OTHER}", "--listen", "tcp://127.0.0.1:0")
        # Those of older ones say none, and who may connect in its place.
        self.put_other("tessera-gateway", GATEWAY, f"\n{RELEASE}\n", "\n")
        self.refused("tessera-gateway is of an older release", "--listen", "tcp://127.0.0.1:0")

    def test_a_broker_of_another_release_is_refused(self):
        self.put_other("tessera-broker", BROKER)
        self.refused(f"tessera-broker is of release {OTHER}")

    def test_a_broker_that_was_replaced_while_a_session_runs(self):
        server = self.serve()
        session = Session(server.url)
        self.put_other("tessera-broker", BROKER)
        os.kill(server.broker(), signal.SIGKILL)
        wait_for(lambda: f"tessera-broker is of release {OTHER}, this server of {RELEASE}" in server.words(), 30, "a word about the release")
        # Without a broker sessions go on, and begin.
        self.assertEqual(Session(server.url).end(), 0)
        self.assertEqual(session.end(), 0)
        # The same release again: the server has a broker without a restart.
        self.put_same("tessera-broker")
        wait_for(lambda: subprocess.run([TESSERA, "vgpu", "list", "--server", server.url], capture_output=True, timeout=60,
                                        env=environment()).returncode == 0, 60, "a broker")
        self.assertEqual(server.stop(), 0)

    def test_a_gateway_that_was_replaced_while_a_session_runs(self):
        server = self.serve("--listen", "tcp://127.0.0.1:0")
        url = re.search(r"tcp://127.0.0.1:\d+", server.ready)[0]
        session = Session(url)
        gateway, = server.gateways()
        before = self.carriers(gateway)
        self.assertEqual(len(before), 1)
        # What carries the sessions may be of another file, of a release with the same link version.
        self.put_same("tessera-gateway")
        os.kill(gateway, signal.SIGHUP)
        new = os.stat(f"{self.prefix}/bin/tessera-gateway").st_ino
        wait_for(lambda: [self.file_of(pid) for pid in self.carriers(gateway) - before] == [new], 30, "a process of the new file")
        self.assertEqual(Session(url).end(), 0)
        self.assertEqual(session.end(), 0)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
