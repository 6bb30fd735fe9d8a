#!/usr/bin/env python3
"""Libraries that few programs may carry: what a session loads, and what strangers of a network reach, stays small.

  needed_libraries_test.py BUILD_DIRECTORY      exit status 77 when the programs were not built
"""

import pathlib
import re
import subprocess
import sys
import unittest

HEAVY = re.compile(r"lib(grpc|gpr|protobuf|absl|upb|sqlite3|prometheus)\b.*|lib(grpc|absl|address_sorting).*")
WITHOUT = ("bin/tessera", "bin/tesserad", "bin/tessera-agent", "bin/tessera-gateway", "lib/client/libcuda.so.1")
OWN_CXX = ("bin/tessera", "bin/tessera-agent", "lib/client/libcuda.so.1")  # they start with each program
WITH = ("bin/tessera-broker", "bin/tessera-admin", "bin/tessera-lease", "bin/tessera-node", "bin/tessera-placer")
build = None


def needed(name):
    text = subprocess.run(["readelf", "-d", build / name], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


class NeededLibraries(unittest.TestCase):
    def test_most_programs_need_none_of_them(self):
        for name in WITHOUT:
            libraries = needed(name)
            self.assertTrue(libraries, name)
            self.assertEqual([library for library in libraries if HEAVY.fullmatch(library)], [], name)

    def test_what_starts_with_each_program_brings_its_own_cxx_library(self):
        for name in OWN_CXX:
            self.assertEqual([library for library in needed(name) if library.startswith(("libstdc++", "libgcc"))], [], name)

    def test_metrics_are_the_brokers_alone(self):
        carriers = [name for name in WITHOUT + WITH if any("prometheus" in library for library in needed(name))]
        self.assertEqual(carriers, ["bin/tessera-broker"])

    def test_those_that_do_would_be_noticed(self):
        for name in WITH:
            self.assertTrue([library for library in needed(name) if HEAVY.fullmatch(library)], name)


if __name__ == "__main__":
    build = pathlib.Path(sys.argv.pop())
    if not all((build / name).exists() for name in WITHOUT + WITH):
        sys.exit(77)
    unittest.main()
