#!/usr/bin/env python3
"""Sentences that have to be read twice do not become more. A sentence is marked if it begins with one of FIRST, or has one of WITHIN.
prose_budget.json has how many of each folder's may be marked; `prose_test.py --update` lowers these numbers to what there is.

usage: prose_test.py [--update | --show FOLDER]
"""

import collections
import json
import pathlib
import re
import sys
import unittest

import sources

BUDGET = pathlib.Path(__file__).with_name("prose_budget.json")
FOLDERS = ("client-stub", "deploy", "docs", "netaware", "programs", "protocol", "scheduler", "server", "tests")
FIRST = re.compile(r"(?:What|Who|Whether|Which|That|Of|Between|How|Where)\b")
WITHIN = re.compile(r"\b(?:of which|whoever|what is|those who|such as are|so long|by then|tell|tells|told|telling|say|says|said|saying|hear|hears|heard|hearing)\b",
                    re.IGNORECASE)
# The end of a sentence, or of a row or item.
END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*(])|\n\s*\n|\n(?=\s*[-*|] )")


def comments(text):
    """The comments of C++ or of a .proto file, neighbours joined."""
    block = []
    for line in text.splitlines():
        if match := re.match(r"\s*//+ ?(.*)", line):
            block.append(match[1])
            continue
        if block:
            yield "\n".join(block)
            block = []
        if match := re.search(r"[;{},)]\s+// (.*)$", line):
            yield match[1]
    if block:
        yield "\n".join(block)


def prose(text):
    """Of a page: no blocks of code, and no words in backquotes."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\|", "\n\n", re.sub(r"`[^`]*`", "`", text))


def sentences(path):
    text = (sources.ROOT / path).read_text(encoding="utf-8")
    for block in [prose(text)] if path.suffix == ".md" else comments(text):
        for sentence in END.split(block):
            sentence = " ".join(sentence.split()).lstrip("#-*|> ")
            if len(sentence.split()) > 2:
                yield sentence


def is_marked(sentence):
    return bool(FIRST.match(sentence) or WITHIN.search(sentence))


def files():
    for folder in FOLDERS:
        for path in sorted((sources.ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".proto", ".md"):
                yield path.relative_to(sources.ROOT)


def counts():
    """{folder: (marked sentences, all)}"""
    found = collections.defaultdict(lambda: [0, 0])
    for path in files():
        for sentence in sentences(path):
            count = found[str(path.parent)]
            count[0] += is_marked(sentence)
            count[1] += 1
    return found


class Prose(unittest.TestCase):
    def test_marks_are_found(self):
        text = "// What waits. It reads the file:\n// The rest is told later.\nint a;  // who\nvoid F();  // How long it waits\n// By then it ended"
        found = [(sentence, is_marked(sentence)) for block in comments(text) for sentence in END.split(block)]
        self.assertEqual([marked for sentence, marked in found if len(sentence.split()) > 1], [True, False, True, True, True], found)

    def test_no_folder_has_more_than_its_budget(self):
        budget = json.loads(BUDGET.read_text())
        found = counts()
        self.assertGreater(sum(total for _, total in found.values()), 10000)
        more = {folder: f"{marked} of {total} sentences are marked, {budget.get(folder, 0)} may be" for folder, (marked, total) in found.items()
                if marked > budget.get(folder, 0)}
        self.assertEqual(more, {}, "write these in plain words: tests/tidy/prose_test.py --show FOLDER lists them")


def update():
    budget = json.loads(BUDGET.read_text()) if BUDGET.exists() else None
    now = {folder: marked for folder, (marked, _) in sorted(counts().items()) if marked}
    if budget is not None:
        now = {folder: min(marked, budget.get(folder, 0)) for folder, marked in now.items()}
    BUDGET.write_text(json.dumps(now, indent=0) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    elif sys.argv[1:2] == ["--show"]:
        for file in files():
            if str(file.parent) == sys.argv[2].rstrip("/"):
                for each in filter(is_marked, sentences(file)):
                    print(f"{file}: {each}")
    else:
        unittest.main()
