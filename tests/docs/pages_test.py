#!/usr/bin/env python3
"""The commands of docs/*.md that are marked as to be run do what their page says.

usage: pages_test.py BUILD_DIRECTORY
"""

import json
import os
import pathlib
import re
import shutil
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))

from page import BLOCK, DOCS, Page  # noqa: E402
from product import free_port  # noqa: E402


class Pages(unittest.TestCase):
    def test_install(self):
        with Page("install.md") as page:
            said = page.follow()
            self.assertRegex(said["tessera --version"], r"^tessera \d")
            self.assertTrue(os.path.getsize(f"{page.home}/completion.bash") > 1000)
            self.assertIn("tessera-run.1", " ".join(os.listdir(f"{page.home}/manual")))

    def test_two_machines(self):
        port = free_port()
        with Page("two-machines.md", **{"gpu7.example:4180": f"localhost:{port}", "server gpu7.example": "server localhost"}) as page:
            configuration = pathlib.Path(page.home, ".config/tessera")

            def change_hosts(number):
                """Each has its own files, where the page says."""
                for block, name in ((1, "localhost"), (2, "alice")):
                    if number == block:
                        shutil.rmtree(configuration, ignore_errors=True)
                        shutil.copytree(f"{page.home}/gpu-keys/{name}", configuration)

            said = page.follow(change_hosts)
            self.assertEqual(said[f"tessera run --server tls://localhost:{port} -- ./program"].splitlines()[-1], "1")

    def test_why_slow(self):
        text = (DOCS / "why-slow.md").read_text(encoding="utf-8")
        with Page("why-slow.md") as page:
            pathlib.Path(page.home, "slow.py").write_text(re.search(r"^```python slow.py\n(.*?)^```$", text, re.M | re.S)[1])
            said = page.follow()
        # What is shown has the lines that there are.
        shown = re.search(r"^```\n(python3: .*?)^```$", text, re.M | re.S)[1]
        told = said["tessera trace summary trace.json"]
        self.assertEqual(*([line.split()[0] for line in lines.splitlines() if not line.startswith(" " * 10)] for lines in (told, shown)))
        self.assertLessEqual(told.count("\n"), 12)
        numbers = json.loads(said["tessera trace summary trace.json -o json"])
        self.assertEqual((numbers["gpu"]["launches"], numbers["gpu"]["kernels"][0]["name"]), (300, "step"))
        parts = [numbers["thread"][part] for part in ("program_ns", "library_ns", "gpu_ns", "server_ns", "way_ns")]
        self.assertLess(abs(sum(parts) - numbers["wall_ns"]), 100)
        self.assertIn("cuMemcpyDtoH_v2", [function["name"] for function in numbers["round_trips"]["functions"]])
        self.assertEqual("".join(said.values()).count("from the first call to the last"), 3)

    def test_no_page_is_left_out(self):
        marked = {path.name for path in DOCS.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8"))}
        followed = {"install.md", "two-machines.md", "why-slow.md"}
        self.assertEqual(marked, followed, "pages with commands to be run, and those that a test here follows")


if __name__ == "__main__":
    unittest.main()
