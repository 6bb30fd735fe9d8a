#!/usr/bin/env python3
"""What is told of programs in vGPUs that wait, and what becomes of them.

usage: vgpu_waits_test.py BUILD_DIRECTORY
"""

import os
import signal
import subprocess
import time
import unittest

from product import TESSERA, DevicePage, end_with_test, environment, program, wait_for
from vgpu_test import VgpuTest, vgpu


class Waits(VgpuTest):
    def test_status_tells_what_was_queued_before_a_second_one_came(self):
        self.serve(vgpu("a", 0.5), vgpu("b", 0.3))
        words = [TESSERA, "run", "--server", self.server.url, "--vgpu", "a", "--", program("occupy"), "150", "100000", "1", "stay"]
        first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        end_with_test(first)
        self.addCleanup(self.end, first)
        self.assertEqual(first.stdout.readline(), "begins\n")
        worker, = self.server.workers()
        wait_for(lambda: DevicePage(self.server).busy_ns(worker) > 0, 30, "a kernel on the device")
        begin = time.monotonic()
        words[5:] = ["b", "--", program("occupy"), "0", "1", "1", "stay"]
        second = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        end_with_test(second)
        self.addCleanup(self.end, second)

        def before(name):
            one = next(one for one in self.status()["vgpus"] if one["name"] == name)
            return one["queued_before_ms"], one["queued_before_runs"]

        wait_for(lambda: before("a")[0] > 500, 60, "something that was queued")
        text = subprocess.run([TESSERA, "top", "--server", self.server.url], capture_output=True, text=True, env=environment()).stdout
        self.assertIn("QUEUED BEFORE", text)
        wait_for(lambda: not before("a")[1], 90, "the end of it")
        took_ms, _ = before("a")
        self.assertGreater(took_ms, 500)
        self.assertLess(took_ms, 1000 * (time.monotonic() - begin))
        # Who came later had nothing queued but its own start.
        wait_for(lambda: not before("b")[1], 60, "the end of its start")
        self.assertLess(before("b")[0], took_ms)
        self.assertEqual(before("a"), (took_ms, False))

    def test_a_question_outlives_the_broker_that_was_asked(self):
        self.serve(vgpu("a", 0.7))
        stopped = self.server.broker()
        os.kill(stopped, signal.SIGSTOP)
        # tesserad ends it after 2 s, and asks the next one.
        self.assertEqual(self.run_in("a", program("count")).stdout, "1\n", self.server.words())
        self.assertNotEqual(self.server.broker(), stopped)

    def test_a_client_that_dies_while_it_waits_leaves_nothing(self):
        self.serve(vgpu("a", 0.01, 0.01), vgpu("b", 0.9))
        (waiting, worker), _ = self.tenant("a", 100_000), self.tenant("b")
        wait_for(lambda: self.status()["vgpus"][0]["waits"], 20, "a wait for a token")
        waiting.kill()  # tessera run has become the program
        wait_for(lambda: worker not in self.server.workers(), 5, "the end of its worker")  # its next token is 10 s away


if __name__ == "__main__":
    unittest.main(verbosity=2)
