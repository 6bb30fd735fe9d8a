#!/usr/bin/env python3
"""What a document names is there: the targets of its links, and the files that it writes as code, from its folder or from the root."""

import pathlib
import re
import subprocess
import unittest

import sources

TOP = ("client-stub", "server", "protocol", "programs", "scheduler", "netaware", "deploy", "tests", "docs", "cmake")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\s]+)`")
PATH = re.compile(rf"(?:{'|'.join(TOP)})/[\w./-]+")


FILE = re.compile(r"[\w./-]+\.(?:h|cc|py|toml|def)")


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=sources.ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(name) for name in listed.splitlines() if (sources.ROOT / name).is_file()]


# Names that files of the repository have; others are the toolkit's, or generated.
NAMES = {path.name for path in tracked() if "golden" not in path.parts}


def documents():
    return [path for path in tracked("*.md") if path.name != "CHANGELOG.md"]


def is_there(document, path):
    return any((sources.ROOT / base / path).exists() for base in (document.parent, ""))


def missing(document, text):
    """(line, what) of each thing that `text`, the content of `document`, names and that is not there."""
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(line):
            if "://" not in target and not (sources.ROOT / document.parent / target).exists():
                yield number, f"a link to {target}"
        for word in CODE.findall(line):
            path = word.split(":")[0].rstrip("/")
            # `protocol/spec/DOMAIN.toml` is no name of one file.
            if path.startswith(("generated/", "/")) or re.search(r"[A-Z]{3}", path.replace("README", "").replace("CMake", "")):
                continue
            is_file = FILE.fullmatch(path) and pathlib.Path(path).name in NAMES
            if (is_file or PATH.fullmatch(path)) and not is_there(document, path):
                yield number, path


class Documents(unittest.TestCase):
    def test_what_is_named_is_there(self):
        found = [f"{document}:{line}: {what}" for document in documents()
                 for line, what in missing(document, (sources.ROOT / document).read_text(encoding="utf-8"))]
        self.assertGreater(len(documents()), 20)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_test_would_notice(self):
        text = "`protocol/README.md`, `protocol/no_such.h`, `ring.h`\n[a](b.md) [c](protocol/README.md) [d](https://e.example/f)"
        self.assertEqual(list(missing(pathlib.Path("README.md"), text)),
                         [(1, "protocol/no_such.h"), (1, "ring.h"), (2, "a link to b.md")])
        self.assertEqual(list(missing(pathlib.Path("protocol/channel/README.md"), "`ring.h` `cuda.h`")), [])


if __name__ == "__main__":
    unittest.main()
