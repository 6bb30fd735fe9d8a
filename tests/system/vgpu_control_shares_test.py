#!/usr/bin/env python3
"""What programs get of a GPU's time while their vGPUs are made, resized and deleted by `tessera vgpu`.

usage: vgpu_control_shares_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import resource
import subprocess
import tempfile
import time
import unittest

from product import TESSERA, environment, program, wait_for
from vgpu_control_case import VgpuControlCase


class VgpuControlShares(VgpuControlCase):
    def check_share(self, worker, others, percent):
        """Of the device time that all of these got; in one window of several, since a busy machine keeps workers from running."""
        for _ in range(5):
            before = [self.page.busy_ns(each) for each in (worker, *others)]
            time.sleep(1)
            got = [self.page.busy_ns(each) - start for each, start in zip((worker, *others), before)]
            share = 100 * got[0] / max(1, sum(got))
            if abs(share - percent) <= 8:
                return
        self.fail(f"{share:.1f} % instead of {percent}")

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

    def test_a_full_disk(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        state = os.path.join(directory.name, "state")
        on_disk = lambda: pathlib.Path(state).read_text() if os.path.exists(state) else ""
        self.serve("--default", "none", "--state", state, log="warning")
        for name in "ab":
            self.vgpu("create", name, "--request", 0.3)
        # A state that is longer than the log, which is a file of the server as well.
        self.vgpu("create", "long", "--request", 0.01, *(word for i in range(30) for word in ("--owner", f"name:{i:0200}")))
        _, a = self.tenant("a")
        _, b = self.tenant("b")
        wait_for(lambda: '"long"' in on_disk(), 10, "its state")
        kept, pid = on_disk(), self.server.process.pid
        # As a disk that is full: no file of the server may grow beyond what is there.
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (len(kept), before[1]))
        for name in "cde":
            self.vgpu("create", name, "--request", 0.1)
        time.sleep(12)  # it is tried again after 10
        self.assertEqual(on_disk(), kept)
        self.assertNotIn("state.new", os.listdir(directory.name))
        self.assertEqual(self.names(), ["a", "b", "c", "d", "e", "long"])
        self.check_share(a, [b], 50)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        wait_for(lambda: '"e"' in on_disk(), 30, "a state that is written again")
        self.assertEqual(self.server.words().count("cannot write the state"), 1, self.server.words())
        self.server.process.kill()
        self.server.process.wait(30)
        self.serve("--default", "none", "--state", state)
        wait_for(self.names, 30, "its vGPUs")
        self.assertEqual(self.names(), ["a", "b", "c", "d", "e", "long"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
