#!/usr/bin/env python3
"""What `make` and CMake say where CUDA_HOME does not lead to the headers of CUDA 13.0."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ([ROOT / "deploy/install-dependencies"], ["cmake", "-P", ROOT / "cmake/CudaHeaders.cmake"])


class CudaHome(unittest.TestCase):
    def refused(self, home):
        """What both say, of white space as one line."""
        for words in COMMANDS:
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"], "CUDA_HOME": home})
            self.assertEqual(done.returncode, 1, done)
            yield " ".join(done.stderr.split())

    def test_it_points_nowhere(self):
        for said in self.refused("/nowhere"):
            self.assertIn("CUDA_HOME is /nowhere, and there is no include/cudaTypedefs.h: set it to a CUDA 13.0 toolkit, or unset it.", said)

    def test_it_is_another_release(self):
        with tempfile.TemporaryDirectory() as home:
            include = pathlib.Path(home, "include")
            include.mkdir()
            (include / "cudaTypedefs.h").touch()
            (include / "cuda.h").write_text("#define CUDA_VERSION 12080\n")
            for said in self.refused(home):
                self.assertRegex(said, "not (those|that) of CUDA 13.0.*: set CUDA_HOME to a CUDA 13.0 toolkit")


if __name__ == "__main__":
    unittest.main()
