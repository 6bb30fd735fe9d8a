#!/usr/bin/env python3
"""READMEs are about today, in at most 100 lines: decisions stand in docs/decisions, a file each, and its README lists them all.

usage: readmes_test.py [--update]   writes that list anew
"""

import pathlib
import re
import subprocess
import sys
import unittest

import sources

LINES_MAX = 100
DECISIONS = pathlib.Path("docs/decisions")
DATED = re.compile(r"^[-*] \**20\d\d-\d\d-\d\d\b")
HEAD = re.compile(r"# (?P<title>[^\n]+)\n\n(?P<date>20\d\d-\d\d-\d\d) · \[(?P<folder>[\w/-]+)\]\([^)]+\)\n")
PARTS = ("**Choice.**", "**Why.**", "**What would change our mind.**")
BEGIN = """# Decisions

What was chosen, why, and what would change our mind: a file each, by the folder that it is about. A new one is a file of the same form;
`tests/tidy/readmes_test.py --update` writes this list.
"""


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=sources.ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(name) for name in listed.splitlines() if (sources.ROOT / name).is_file()]


def faults(readme):
    """What the text of a README has that it must not have."""
    lines = readme.splitlines()
    if len(lines) > LINES_MAX:
        yield f"{len(lines)} lines: move what is detail into a file beside it"
    for number, line in enumerate(lines, 1):
        if DATED.match(line):
            yield f"line {number} is a decision: it belongs in {DECISIONS}"


def faults_of_decision(text):
    """What the text of a decision lacks."""
    if not HEAD.match(text):
        yield "it does not begin with its title, its date and its folder"
    for part in PARTS:
        if f"\n{part}" not in text:
            yield f"it has no {part}"


def list_of(decisions):
    """The README of decisions; `decisions` are their texts by the names of their files."""
    folders = {}
    for name, text in decisions.items():
        head = HEAD.match(text)
        folders.setdefault(head["folder"], []).append((head["date"], head["title"], name))
    parts = [BEGIN]
    for folder in sorted(folders):
        parts.append(f"\n## {folder}\n")
        parts.extend(f"- {date} [{title}]({name})\n" for date, title, name in sorted(folders[folder]))
    return "".join(parts)


def decisions():
    return {path.name: (sources.ROOT / path).read_text(encoding="utf-8")
            for path in tracked(f"{DECISIONS}/*.md") if path.name != "README.md"}


class Readmes(unittest.TestCase):
    def test_readmes_are_short_and_about_today(self):
        readmes = [path for path in tracked("*README.md") if path.parent != DECISIONS]
        self.assertGreater(len(readmes), 50)
        found = [f"{path}: {fault}" for path in readmes for fault in faults((sources.ROOT / path).read_text(encoding="utf-8"))]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_decisions_are_whole_and_listed(self):
        self.assertGreater(len(decisions()), 50)
        found = [f"{DECISIONS}/{name}: {fault}" for name, text in decisions().items() for fault in faults_of_decision(text)]
        self.assertEqual(found, [], "\n" + "\n".join(found))
        self.assertEqual((sources.ROOT / DECISIONS / "README.md").read_text(encoding="utf-8"), list_of(decisions()),
                         "tests/tidy/readmes_test.py --update writes the list")

    def test_the_test_would_notice(self):
        self.assertEqual(list(faults("a\n- 2026-01-02: we do this\n")), ["line 2 is a decision: it belongs in docs/decisions"])
        self.assertEqual(len(list(faults("a\n" * 101))), 1)
        whole = "# One\n\n2026-01-02 · [server](../../server/README.md)\n\n" + "\n\n".join(f"{part} X." for part in PARTS) + "\n"
        self.assertEqual(list(faults_of_decision(whole)), [])
        self.assertEqual(len(list(faults_of_decision("# One\n\n**Why.** X.\n"))), 3)
        self.assertEqual(list_of({"b.md": whole, "a.md": whole.replace("01-02", "01-01").replace("One", "Two")}),
                         BEGIN + "\n## server\n- 2026-01-01 [Two](a.md)\n- 2026-01-02 [One](b.md)\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        (sources.ROOT / DECISIONS / "README.md").write_text(list_of(decisions()), encoding="utf-8")
    else:
        unittest.main()
