#!/usr/bin/env python3
"""The spec describes a closed world: exactly the functions that CUDA 13.0's libcuda.so exports, in all their versions.

exports.txt holds the names of the toolkit's link-time stub (stubs/libcuda.so), which is compared too where it is present.
"""

import os
import pathlib
import re
import subprocess
import unittest

import sources
import generate

HERE = pathlib.Path(__file__).resolve().parent
CUDA = [pathlib.Path(p) for p in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if p]
EXPORT_COUNT = 637


def exported_symbols(library):
    done = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return sorted(line.split()[-1] for line in done.stdout.splitlines())


def first_existing(*names):
    return next((root / name for root in CUDA for name in names if (root / name).is_file()), None)


class Exports(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.spec = generate.load(sources.ROOT / "protocol" / "spec")
        cls.symbols = sorted(symbol for call in cls.spec.exports for symbol in call.symbols)
        cls.listed = (HERE / "exports.txt").read_text().split()

    def test_spec_is_the_list(self):
        self.assertEqual(len(self.listed), EXPORT_COUNT)
        self.assertEqual(self.symbols, sorted(self.listed))

    def test_list_is_the_toolkit(self):
        stub = first_existing("lib64/stubs/libcuda.so", "lib/stubs/libcuda.so", "targets/x86_64-linux/lib/stubs/libcuda.so")
        if stub is None:
            self.skipTest("the toolkit's stubs/libcuda.so is not installed")
        self.assertEqual(exported_symbols(stub), sorted(self.listed))

    def test_graphics_names_are_those_of_the_headers(self):
        names = set()
        for header in ("cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h"):
            path = first_existing(f"include/{header}")
            if path is None:
                self.skipTest(f"the toolkit's {header} is not installed")
            names |= set(re.findall(r"typedef .*\bPFN_(cu\w+)\)", path.read_text()))
        # Not in the driver for Linux on x86-64 (measured: driver 580).
        names = {name for name in names if not name.startswith(("cuWGL", "cuEventCreateFrom"))}
        listed = {f"{n.base_name}_v{n.since}" for n in self.spec.graphics if n.since}
        listed |= {f"{n.base_name}_v{n.per_thread_since}{n.per_thread}" for n in self.spec.graphics if n.per_thread}
        self.assertGreater(len(listed), 30)
        self.assertEqual(listed, names)

    def test_every_typedef_is_covered(self):
        expected = {f"PFN_{c.base_name}_v{c.since}" for c in self.spec.exports}
        expected |= {f"PFN_{c.base_name}_v{c.per_thread_since}{c.per_thread}" for c in self.spec.exports if c.per_thread}
        names = set()
        for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"):
            path = first_existing(f"include/{header}")
            self.assertIsNotNone(path, f"{header} was not found")
            names |= set(re.findall(r"\(CUDAAPI \*(PFN_cu\w+)\)", path.read_text()))
        self.assertGreater(len(names), 600)
        self.assertEqual(sorted(names - expected), [])
        self.assertEqual(sorted(expected - names), [])


if __name__ == "__main__":
    unittest.main()
