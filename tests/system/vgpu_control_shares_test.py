#!/usr/bin/env python3
"""What programs get of a GPU's time while their vGPUs are made, resized and deleted by `tessera vgpu`.

usage: vgpu_control_shares_test.py BUILD_DIRECTORY
"""

import subprocess
import time
import unittest

from product import TESSERA, environment, program, wait_for
from vgpu_control_case import VgpuControlCase


class VgpuControlShares(VgpuControlCase):
    def test_made_resized_and_deleted_while_programs_run(self):
        self.serve("--default", "none")
        self.assertEqual(self.vgpu("list"), "there is no vGPU for you here\n")
        made = self.json("create", "a", "--request", 0.7)
        self.assertEqual((made["request"], made["limit"], made["gpu"], made["made_by"], made["owners"]), (0.7, 1, 0, "api", []))
        self.vgpu("create", "b", "--request", 0.3)
        self.assertIn("request 0.1 is 0.1 too much", self.vgpu("create", "c", "--request", 0.1, code=79))
        first, a = self.tenant("a")
        second, b = self.tenant("b")
        self.check_share(a, [b], 70)
        self.vgpu("resize", "a", "--request", 0.3, "--revision", made["revision"])
        self.vgpu("resize", "b", "--request", 0.7)
        self.assertIn("is not the present one", self.vgpu("resize", "a", "--request", 0.1, "--revision", made["revision"], code=79))
        self.check_share(a, [b], 30)
        self.assertEqual([vgpu["sessions"] for vgpu in self.json("list")["vgpus"]], [1, 1])

        self.assertIn("is used by 1 session:", self.vgpu("delete", "a", code=79))
        self.vgpu("delete", "a", "--force")
        wait_for(lambda: a not in self.server.workers(), 30, "its session's end")
        self.assertNotEqual(first.wait(30), 0)
        self.assertEqual(self.names(), ["b"])
        self.assertIsNone(second.poll())
        refused = subprocess.run([TESSERA, "run", "--server", self.server.url, "--vgpu", "a", "--", program("occupy"), "1", "1"],
                                 capture_output=True, text=True, timeout=60, env=environment())
        self.assertEqual(refused.returncode, 79, refused.stderr)
        self.end(second)
        wait_for(lambda: b not in self.server.workers(), 30, "its session's end")
        self.vgpu("delete", "b")

    def test_resized_again_and_again_while_programs_run(self):
        self.serve("--default", "none")
        self.vgpu("create", "a", "--request", 0.7)
        self.vgpu("create", "b", "--request", 0.3)
        programs, workers = zip(self.tenant("a"), self.tenant("b"))
        broker, changes, until = self.server.broker(), 0, time.monotonic() + 6
        while time.monotonic() < until:
            next_at = time.monotonic() + 0.2
            less, more = ("a", "b") if changes % 2 == 0 else ("b", "a")
            self.vgpu("resize", less, "--request", 0.3)
            self.vgpu("resize", more, "--request", 0.7)
            changes += 1
            time.sleep(max(0, next_at - time.monotonic()))
        self.assertGreater(changes, 4)
        shares = {vgpu["name"]: vgpu["request"] for vgpu in self.json("list")["vgpus"]}
        self.assertEqual(shares, {less: 0.3, more: 0.7})
        self.assertEqual([each.poll() for each in programs], [None, None])
        self.assertEqual((self.server.broker(), set(self.server.workers())), (broker, set(workers)))
        self.check_share(workers[0], workers[1:], 100 * shares["a"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
