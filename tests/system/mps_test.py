#!/usr/bin/env python3
"""No worker becomes a client of an MPS server of its machine: its driver is told of a place where nothing is, whatever the
environment says. A driver looks there when it is initialised, so a driver tells it (witness_driver.cc).

usage: mps_test.py BUILD_DIRECTORY
"""

import os
import re
import subprocess
import tempfile
import unittest

from product import BUILD, TESSERA, Server, environment, program, wait_for

WITNESS = os.path.join(BUILD, "tests/system/libwitness-driver.so")


def read(path):
    with open(path) as file:
        return file.read()


class Mps(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        # One of a caller who does use MPS.
        self.environments = [environment(CUDA_MPS_PIPE_DIRECTORY=directory.name), environment(CUDA_MPS_PIPE_DIRECTORY=None)]

    def check(self, words):
        """What a driver has said."""
        place = re.search(r"witness: process \d+ has MPS at (.*)", words)[1]
        self.assertTrue(place.startswith("/"), place)  # a driver that finds no variable has a place of its own, /tmp/nvidia-mps
        self.assertFalse(os.path.exists(place), place)

    def check_worker(self, server, client_words=lambda: ""):
        """What a worker's driver writes is kept for its client, and gone once that has it (server/worker/device_output.h)."""
        def said():
            words = client_words()
            for worker in server.workers():
                with open(f"/proc/{worker}/fd/2") as errors:
                    words += errors.read() if "device-errors" in os.readlink(f"/proc/{worker}/fd/2") else ""
            return words

        words = []
        wait_for(lambda: "witness" in (words.append(said()) or words[-1]), 30, "a worker with a driver")
        self.check(words[-1])

    def serve(self, env, *options):
        # Without a sandbox a worker's descriptors can be read by whoever started it.
        server = Server("--sandbox", "off", *options, driver=WITNESS, env=env)
        self.addCleanup(server.stop)
        return server

    def test_workers_of_sessions(self):
        for env in self.environments:
            server = self.serve(env)
            self.check(server.words())  # the probe
            errors = tempfile.NamedTemporaryFile("w+")
            self.addCleanup(errors.close)
            client = subprocess.Popen([TESSERA, "run", "--server", server.url, "--", program("spin")], stdout=subprocess.DEVNULL,
                                      stderr=errors, env=env)
            self.addCleanup(client.wait)
            self.addCleanup(client.kill)
            self.check_worker(server, lambda: read(errors.name))

    def test_workers_that_wait(self):
        for env in self.environments:
            self.check_worker(self.serve(env, "--warm-workers", "1"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
