#!/usr/bin/env python3
"""The built libcuda.so.1, and libnvidia-ml.so.1 beside it, fit into any program: they export the names of the API and
nothing else, need nothing but libc's own libraries, no newer symbol of libc than GLIBC_2.34, and are recognisable as
Tessera's.

  stub_library_test.py FILE      FILE is libcuda.so.1; exit status 77 when it was not built
"""

import pathlib
import re
import subprocess
import sys
import unittest

import sources  # noqa: F401: finds exports_test's imports
import exports_test

LIBC = re.compile(r"(libc|libm|libdl|librt|libpthread)\.so\.\d+|ld-linux-x86-64\.so\.2")
GLIBC_MAX = (2, 34)
library = None


def libraries():
    return [library, str(pathlib.Path(library).parent / "libnvidia-ml.so.1")]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class StubLibrary(unittest.TestCase):
    maxDiff = None

    def test_exports_are_the_list(self):
        listed = (pathlib.Path(__file__).resolve().parent / "exports.txt").read_text().split()
        spec = exports_test.generate.load(sources.ROOT / "protocol" / "spec")
        listed += [symbol for name in spec.graphics for symbol in name.symbols]
        self.assertEqual(exports_test.exported_symbols(library), sorted(listed))

    def test_needs_libc_alone(self):
        for file in libraries():
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", file))
            self.assertTrue(needed)
            self.assertEqual([name for name in needed if not LIBC.fullmatch(name)], [], file)

    def test_the_other_exports_nvml(self):
        """All functions that nvml.h of CUDA 13.0 declares, five newer ones, and the one through which nvidia-smi asks for more."""
        listed = (pathlib.Path(__file__).resolve().parent / "nvml_exports.txt").read_text().split()
        self.assertEqual(exports_test.exported_symbols(libraries()[1]), sorted(listed))
        header = exports_test.first_existing("include/nvml.h")
        if header is not None:
            declared = re.findall(r"DECLDIR (nvml\w+)\(", header.read_text())
            self.assertEqual(sorted(set(declared) - set(listed)), [])

    def test_name_and_flags(self):
        dynamic = output("readelf", "-d", library)
        self.assertIn("[libcuda.so.1]", "".join(re.findall(r"\(SONAME\).*", dynamic)))
        self.assertRegex(dynamic, r"FLAGS_1\).*NODELETE")
        self.assertNotIn("TEXTREL", dynamic)

    def test_symbols_of_old_libc(self):
        for file in libraries():
            undefined = output("readelf", "--dyn-syms", "--wide", file)
            versions = set(re.findall(r"@(\w+_[\d.]+)", undefined))
            self.assertTrue(versions)
            for version in versions:
                name, _, number = version.rpartition("_")
                self.assertEqual(name, "GLIBC", f"{file}: a symbol of version {version}")
                self.assertLessEqual(tuple(map(int, number.split(".")))[:2], GLIBC_MAX, f"{file}: {version}")

    def test_carries_the_note(self):
        for file in libraries():
            self.assertIn("tessera", output("readelf", "--notes", "--wide", file))


if __name__ == "__main__":
    library = sys.argv.pop()
    if not pathlib.Path(library).is_file():
        print(f"{library} was not built")
        sys.exit(77)
    unittest.main()
