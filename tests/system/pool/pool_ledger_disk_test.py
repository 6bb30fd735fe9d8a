#!/usr/bin/env python3
"""A grant ends while the disk of its server's ledger is full: what it had is there for others soon after the disk has room.

usage: pool_ledger_disk_test.py BUILD_DIRECTORY
"""

import ctypes
import json
import os
import subprocess
import unittest

from pool import PoolServer
from pool_case import PoolCase
from product import wait_for
from users import in_user_namespace, may_have_user_namespaces

SIZE = "4m"


def may_mount():
    """Whether this process may have mounts of its own, which nobody else sees; it has them from now on."""
    if os.geteuid() != 0:
        if not may_have_user_namespaces():
            return False
        in_user_namespace()
    return (ctypes.CDLL(None).unshare(0x00020000) == 0 and  # CLONE_NEWNS
            subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode == 0)


class LedgerDisk(PoolCase):
    def setUp(self):
        if not may_mount():
            self.skipTest("needs to be root, or user namespaces")
        self.begin(servers=0)
        # A disk of its own for what the server keeps.
        place = os.path.join(self.pool.directory, "state1")
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", place], check=True)
        stop = self.pool.place.cleanup
        self.pool.place.cleanup = lambda: (subprocess.run(["umount", place], check=True), stop())
        self.fills = os.path.join(place, "fills")
        self.server = PoolServer(self.pool, 1, devices=1)
        self.assertEqual(self.server.state, place)
        self.pool.servers.append(self.server)
        self.pool.wait_for_servers()

    def fill(self):
        with open(self.fills, "wb", buffering=0) as file:
            for size in (4096, 1):  # to the last byte
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    pass

    def grants(self):
        return json.loads(self.ask("get", "grants", "-o", "json"))["grants"]

    def test_what_a_grant_had_is_back_soon(self):
        node = self.server.node()
        kept = self.start("--gpu-share", "0.25")
        job = self.start("--gpu-share", "0.5")
        self.assertEqual(len(self.pool.grants()), 2)
        self.fill()
        self.end(job)
        wait_for(lambda: "the disk is full: make room" in self.pool.placer.words(), 10, "a word about the disk")
        # Nobody is given what the ledger still promises.
        late = self.pool.run("--gpu-share", "0.75", "--wait", "3s", "--", "true")
        self.assertEqual(late.returncode, 82, late.stderr)
        self.assertEqual(len(self.pool.grants()), 2)
        self.assertEqual(self.server.node(), node)
        os.unlink(self.fills)
        wait_for(lambda: len(self.pool.grants()) == 1, 10, "the end of the vGPU")
        whole = self.pool.run("--gpu-share", "0.75", "--wait", "10s", "--", "true")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(self.pool.joins(), 1)
        self.end(kept)
        wait_for(lambda: self.pool.grants() == {} and self.grants() == [], 20, "the end of all grants")


if __name__ == "__main__":
    unittest.main(verbosity=2)
