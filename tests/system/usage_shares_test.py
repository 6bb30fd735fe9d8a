#!/usr/bin/env python3
"""Usage records of tenants that share a GPU.

usage: usage_shares_test.py BUILD_DIRECTORY
"""

import json
import subprocess
import unittest

from product import TESSERA, environment, program, wait_for
from usage_system_test import UsageBase


class UsageShares(UsageBase):
    def test_two_tenants_and_a_restart(self):
        self.serve()
        self.assertIsNone(self.keeper())
        self.assertEqual(self.usage(), {})
        for name, request in (("big", 0.75), ("small", 0.25)):
            self.vgpu("create", name, "--request", request, "--memory", "256MiB")
        self.tenants = [self.tenant(name)[0] for name in ("big", "small")]
        wait_for(lambda: self.usage().get("small", {}).get("busy_s", 0) > 1, 60, "a second of GPU time in the records")
        rows = self.usage()
        self.assertGreater(rows["big"]["busy_s"], 1.5 * rows["small"]["busy_s"])
        for row in rows.values():
            self.assertGreater(row["recorded_s"], 2)
            self.assertGreater(row["wait_s"], 0)
            self.assertGreater(row["active_s"], 0)
            self.assertGreater(row["launches"], 100)
            self.assertAlmostEqual(row["share_mean"], row["busy_s"] / row["recorded_s"])
        self.assertEqual(list(self.usage("big")), ["big"])
        self.assertEqual(self.usage("--until", "1h"), {})
        self.assertEqual(set(self.usage("--since", "1m")), {"big", "small"})
        hours = json.loads(self.vgpu("usage", "--by", "hour", "-o", "json"))["rows"]
        self.assertEqual({row["begin"] % 3600 for row in hours}, {0})
        # A program that holds memory, alone on the GPU by now.
        for process in self.tenants:
            self.end(process)
        copies = subprocess.Popen([TESSERA, "run", "--server", self.server.url, "--vgpu", "big", "--", program("copy_loop")],
                                  stdout=subprocess.DEVNULL, env=environment())
        self.addCleanup(copies.wait)
        self.addCleanup(copies.kill)
        wait_for(lambda: self.usage("big")["big"]["memory_peak_bytes"] >= 64 << 20, 60, "memory in the records")
        row = self.usage("big")["big"]
        self.assertEqual(sum(row["memory_peak_by_kind"].values()), row["memory_peak_bytes"])
        self.assertGreaterEqual(row["memory_peak_by_kind"]["allocations"], 64 << 20)
        copies.kill()
        self.assertRegex(self.vgpu("usage"), r"\ANAME +GPU +FROM .*\nbig +GPU-[0-9a-f-]+ +20\d\d-.*Z ")
        self.assertEqual(self.server.stop(), 0)
        self.start()
        after = self.usage()
        self.assertGreaterEqual(after["small"]["busy_s"], rows["small"]["busy_s"])


if __name__ == "__main__":
    unittest.main()
