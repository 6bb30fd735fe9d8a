"""What the tidy tests share: the repository's root and its source files."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "protocol" / "codegen"))

_SKIPPED = {"build", "dist", ".git", "__pycache__"}


def source_files(*folders):
    """C and C++ files below the folders (all of the repository when none is given), as paths relative to the root."""
    for folder in folders or [p.name for p in ROOT.iterdir() if p.is_dir()]:
        if folder in _SKIPPED or folder.startswith("build-"):
            continue
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".c", ".cu") and path.is_file():
                yield path.relative_to(ROOT)


def includes(path):
    """(line number, included name) of every #include in the file."""
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line):
            yield number, match[1]
