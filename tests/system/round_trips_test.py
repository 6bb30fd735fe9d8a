#!/usr/bin/env python3
"""How often programs wait for the server: as often as they ask for something that only the GPU can tell, and no more.

usage: round_trips_test.py BUILD_DIRECTORY
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from product import TESSERA, Server, environment

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "round_trips_client.py")


class RoundTrips(unittest.TestCase):
    def count(self, **how):
        server = Server(**how)
        try:
            with tempfile.TemporaryDirectory() as directory:
                statistics = os.path.join(directory, "statistics.json")
                done = subprocess.run([TESSERA, "run", "--quiet", "--server", server.url, "--", sys.executable, CLIENT],
                                      env=environment(TESSERA_STATS=statistics), capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(statistics) as file:
                    regions = json.load(file)["regions"]
        finally:
            server.stop()
        names = done.stdout.split()
        self.assertEqual(len(names), len(regions))
        return {name: region["round_trips"] for name, region in zip(names, regions)}

    def check(self, counted, expected):
        self.assertLessEqual(counted.pop("poll"), 1, "an event is asked for once, then watched")
        # Only a wait is counted, and the answer may be there before anybody waits for it.
        for read in ("read_4_bytes", "read_4_bytes_into_pinned_memory"):
            self.assertLessEqual(counted.pop(read), 1)
        self.assertEqual(counted, expected)

    def test_on_one_host(self):
        self.check(self.count(), {
            "launches": 0, "objects": 0,
            "copies_of_pinned_memory": 0, "copies_of_ordinary_memory": 0, "sets": 0,
            "questions": 0, "module_of_20_kernels": 1 + 20, "library_of_20_kernels": 1 + 20})

    def test_between_hosts(self):
        self.check(self.count(tcp=True), {
            "launches": 0, "objects": 0,
            "copies_of_pinned_memory": 0, "copies_of_ordinary_memory": 0, "sets": 0,
            "questions": 0, "module_of_20_kernels": 1 + 20, "library_of_20_kernels": 1 + 20})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
