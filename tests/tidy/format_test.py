#!/usr/bin/env python3
"""The code is what clang-format 16 makes of it (.clang-format). Another version has another opinion, so it must be that one."""

import concurrent.futures
import os
import shutil
import subprocess
import unittest

import sources

TOOL = "clang-format-16"
FILES_AT_ONCE = 50
# What the generator is to print, which has no format.
GENERATED = "tests/protocol/codegen/golden/"


def differing(files):
    """Those of `files` that it would change, with the first place of each."""
    done = subprocess.run([TOOL, "--dry-run", "--ferror-limit=1", *files], cwd=sources.ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stderr.splitlines() if "[-Wclang-format-violations]" in line]


class Format(unittest.TestCase):
    def test_code_and_tool_agree(self):
        self.assertIsNotNone(shutil.which(TOOL), f"{TOOL} is missing: run deploy/install-dependencies {TOOL}")
        files = [str(path) for path in sources.source_files() if not str(path).startswith(GENERATED)]
        self.assertGreater(len(files), 500)
        parts = [files[i:i + FILES_AT_ONCE] for i in range(0, len(files), FILES_AT_ONCE)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = [line for lines in pool.map(differing, parts) for line in lines]
        self.assertFalse(wrong, f"{len(wrong)} places differ; run {TOOL} -i on their files:\n" + "\n".join(wrong[:20]))


if __name__ == "__main__":
    unittest.main()
