#!/usr/bin/env python3
"""Manual pages: each program and command has one, with every option of its --help, and groff and mandoc have nothing to say of it.

usage: manual_test.py BUILD_DIRECTORY
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from product import BUILD, HAS_CONTROL_API, environment

COMMANDS = ["tessera", "tessera-replay"]
SERVICES = ["tesserad", "tessera-agent", "tessera-gateway", "tessera-broker"]
if HAS_CONTROL_API:
    SERVICES += ["tessera-node", "tessera-placer", "tessera-lease"]


def ask(name, *words):
    return subprocess.run([os.path.join(BUILD, "bin", name), *words], capture_output=True, text=True, timeout=60,
                          env={**environment(), "SOURCE_DATE_EPOCH": "86400"})


def options_of(text):
    """Long names in the left column of a --help."""
    return set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE))


def complaints(page):
    """What the readers of manual pages that this machine has say of one."""
    said = ""
    for program, words in (("groff", ["-man", "-ww", "-Tascii", "-z"]), ("mandoc", ["-Tlint", "-Wwarning"])):
        if shutil.which(program):
            done = subprocess.run([program, *words, page], capture_output=True, text=True, timeout=60)
            said += done.stdout + done.stderr
    return said


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        for name in COMMANDS + SERVICES:
            done = ask(name, "--manual", cls.directory)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
        cls.pages = {path.name: path.read_text(encoding="ascii") for path in cls.directory.iterdir()}

    def check_options(self, page, *words):
        shown = self.pages[page].replace("\\-", "-")
        help_text = ask(*words, "--help").stdout
        self.assertIn("--help", options_of(help_text))
        for option in options_of(help_text):
            self.assertRegex(shown, rf"(?m)^\\fB(-\w,)?{option}\\fR", page)

    def test_each_command_has_a_page_with_its_options(self):
        commands = re.search(r"Subcommands:\n(.*?)\n\n", ask("tessera", "--help").stdout, re.DOTALL)[1]
        names = re.findall(r"^  (\w+) ", commands, re.MULTILINE)
        self.assertIn("run", names)
        for name in names:
            self.check_options(f"tessera-{name}.1", "tessera", name)
            self.assertIn(f"tessera\\-{name}\\fR(1)", self.pages["tessera.1"])
        for name in COMMANDS:
            self.check_options(f"{name}.1", name)
        for name in SERVICES:
            self.check_options(f"{name}.8", name)
        self.assertEqual(len(self.pages), len(names) + len(COMMANDS) + len(SERVICES))

    def test_what_is_not_for_users_is_left_out(self):
        for name, page in self.pages.items():
            self.assertNotRegex(page.replace("\\-", "-"), r"\\fB--(\w+-fd|parent-pid|manual|impair)", name)

    def test_sections_of_a_page(self):
        page = self.pages["tessera-run.1"]
        self.assertIn('.TH TESSERA\\-RUN 1 1970-01-02 "Tessera', page)
        self.assertIn("tessera\\-run \\- run a program with the GPUs of a server\n", page)
        for section in ("SYNOPSIS", "OPTIONS", "NOTES", "ENVIRONMENT", "EXAMPLES", '"SEE ALSO"'):
            self.assertIn(f"\n.SH {section}\n", page)
        self.assertIn(".TP\n\\fB126\\fR\nthe program is not executable\n", page)
        self.assertIn(".nf\ntessera run \\-\\- python train.py\n", page)

    @unittest.skipUnless(shutil.which("groff") or shutil.which("mandoc"), "neither groff nor mandoc is installed")
    def test_readers_of_pages_have_nothing_to_say(self):
        for name in self.pages:
            self.assertEqual(complaints(self.directory / name), "", name)
        broken = self.directory / "broken.1"
        broken.write_text(self.pages["tessera.1"] + "\\*[nothing]\n")
        self.addCleanup(broken.unlink)
        self.assertNotEqual(complaints(broken), "")

    def test_a_directory_that_is_not_there(self):
        for name in ("tessera", "tesserad"):
            done = ask(name, "--manual", "/no/such/place")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("/no/such/place", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
