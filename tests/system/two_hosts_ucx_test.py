#!/usr/bin/env python3
"""What two_hosts_test.py asks of agent and gateway, over UCX; and what is said where UCX is missing.

usage: two_hosts_ucx_test.py BUILD_DIRECTORY
"""

import os
import subprocess
import tempfile
import unittest

import two_hosts_test
from product import DAEMON, GATEWAY, TESSERA, Agent, environment, have_ucx, status_of, uids_of, wait_for


@unittest.skipUnless(have_ucx(), "UCX is not installed (libucx0)")
class Killed(two_hosts_test.Killed):
    link = "ucx"


@unittest.skipUnless(have_ucx(), "UCX is not installed (libucx0)")
class Several(two_hosts_test.Several):
    link = "ucx"

    def test_the_log_says_what_the_link_goes_over(self):
        agent = Agent(self.gateway.url)
        job = self.start(two_hosts_test.COUNT, url=agent.url)
        self.assertEqual(job.communicate(timeout=60), ("1\n", ""))
        self.assertIn(f"the link to {self.gateway.url} goes over tcp/lo\n", agent.words())
        self.assertRegex(self.gateway.words(), r"the link of 127\.0\.0\.1:\d+ goes over tcp/lo\n")
        self.assertEqual(agent.stop(), 0)

    def test_the_process_that_carries_sessions_is_in_a_sandbox(self):
        carrier = self.gateway.carrier()
        fields = status_of(carrier)
        self.assertEqual(fields["Seccomp"], "2")
        self.assertEqual([int(fields[name], 16) for name in ("CapEff", "CapPrm")], [0, 0])
        self.assertEqual(uids_of(carrier), {65523 if os.geteuid() == 0 else os.geteuid()})
        checked = subprocess.run([DAEMON, "--listen", "unix:/nowhere", "--listen", "ucx://127.0.0.1:0", "--check-sandbox", "--driver", "emulator"], capture_output=True, text=True,
                                 timeout=60, env=environment())
        self.assertEqual((checked.stdout.count("missing"), checked.returncode), (0, 0), checked.stdout)

    def test_an_idle_session_uses_no_processor(self):
        agent = Agent(self.gateway.url)
        holder = subprocess.Popen([TESSERA, "run", "--quiet", "--server", agent.url, "--", two_hosts_test.COUNT, "--wait"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        self.assertEqual(holder.stdout.readline(), "1\n")

        def ticks(part):
            total = 0
            for pid in part.pids():
                with open(f"/proc/{pid}/stat") as stat:
                    total += sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
            return total

        def used_in_a_second():
            before = ticks(agent) + ticks(self.gateway)
            try:
                holder.wait(1)
            except subprocess.TimeoutExpired:
                pass
            return (ticks(agent) + ticks(self.gateway) - before) / os.sysconf("SC_CLK_TCK")

        wait_for(lambda: used_in_a_second() < 0.05, 20, "a second in which both were idle")
        holder.communicate()
        self.assertEqual(agent.stop(), 0)


class Missing(unittest.TestCase):
    """A host whose libucp.so.0 cannot be loaded."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        with open(os.path.join(directory.name, "libucp.so.0"), "w"):
            pass
        self.env = environment(LD_LIBRARY_PATH=directory.name)

    def test_a_program_is_told_the_package(self):
        done = subprocess.run([TESSERA, "run", "--server", "ucx://127.0.0.1:1", "--", "true"], capture_output=True, text=True, timeout=60, env=self.env)
        self.assertEqual(done.returncode, 72)
        self.assertIn("install the package libucx0", done.stderr)

    def test_a_gateway_does_not_start(self):
        done = subprocess.run([GATEWAY, "--listen", "ucx://127.0.0.1:0", "--server", "unix:/nowhere"], capture_output=True, text=True, timeout=60, env=self.env)
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertIn("install the package libucx0", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
