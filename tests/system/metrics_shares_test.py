#!/usr/bin/env python3
"""What a server tells of tenants that share a GPU, and of their turns while somebody floods it with questions.

usage: metrics_shares_test.py BUILD_DIRECTORY
"""

import os
import shutil
import signal
import subprocess
import unittest

from metrics_test import Metrics
from product import wait_for
from vgpu_test import vgpu


class MetricsShares(Metrics):
    def test_two_tenants_and_what_they_leave(self):
        self.serve(vgpu("big", 0.75), vgpu("small", 0.25, memory="64MiB"))
        first, _ = self.tenant("big")
        second, _ = self.tenant("small")
        wait_for(lambda: self.value("tessera_vgpu_busy_seconds_total", "small") > 1, 60, "a second of GPU time")
        values = self.values()
        busy = [values["tessera_vgpu_busy_seconds_total", name] for name in ("big", "small")]
        self.assertGreater(busy[0], 1.5 * busy[1])
        for name, request in (("big", 0.75), ("small", 0.25)):
            self.assertEqual(values["tessera_vgpu_share_request_ratio", name], request)
            self.assertEqual(values["tessera_vgpu_share_limit_ratio", name], 1)
            self.assertEqual(values["tessera_vgpu_sessions", name], 1)
            for count in ("grants_total", "kernel_launches_total", "wait_seconds_total", "active_seconds_total"):
                self.assertGreater(values[f"tessera_vgpu_{count}", name], 0, count)
        self.assertEqual(values["tessera_vgpu_memory_limit_bytes", "small"], 64 << 20)
        self.assertNotIn(("tessera_vgpu_memory_limit_bytes", "big"), values)
        self.assertGreater(values["tessera_gpu_mode_seconds_total", "metered"], 1)
        self.assertGreater(values["tessera_gpu_hand_over_seconds_count", None], 10)
        self.end(first)
        self.end(second)
        wait_for(lambda: self.value("tessera_vgpu_sessions", "small") == 0, 30, "the sessions' end")
        after = self.values()
        for count in ("busy_seconds_total", "grants_total", "kernel_launches_total"):
            self.assertGreaterEqual(after[f"tessera_vgpu_{count}", "small"], values[f"tessera_vgpu_{count}", "small"], count)

    def test_a_flood_delays_no_token(self):
        self.serve(vgpu("a", 0.5), vgpu("b", 0.5))
        _, a = self.tenant("a")
        _, b = self.tenant("b")
        self.shares([a, b], 1)
        before = self.values()
        page = f"http://127.0.0.1:{self.port}/metrics"
        # A core's worth of questions.
        asker = subprocess.Popen(["sh", "-c", f"while :; do {shutil.which('python3')} -c 'import socket\n"
                                  f"for _ in range(200):\n s = socket.create_connection((\"127.0.0.1\", {self.port}))\n"
                                  f" s.sendall(b\"GET /metrics HTTP/1.1\\r\\n\\r\\n\")\n s.recv(65536)\n s.close()'; done"],
                                 start_new_session=True, stderr=subprocess.DEVNULL)
        self.addCleanup(asker.wait)
        self.addCleanup(os.killpg, asker.pid, signal.SIGKILL)
        count, total = ("tessera_gpu_hand_over_seconds_count", None), ("tessera_gpu_hand_over_seconds_sum", None)
        wait_for(lambda: self.values()[count] - before[count] > 50, 30, f"changes of holder while {page} is flooded")
        after = self.values()
        self.assertLess((after[total] - before[total]) / (after[count] - before[count]), 0.05)  # both tenants and the flood want the machine's processors


if __name__ == "__main__":
    unittest.main(verbosity=2)
