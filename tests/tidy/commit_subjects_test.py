#!/usr/bin/env python3
"""Subjects of commits have at most 72 characters, since this test is there. Skipped (77), saying so, where there is no history."""

import subprocess
import sys

import sources

LENGTH_MAX = 72
THIS = "tests/tidy/commit_subjects_test.py"


def git(*words):
    return subprocess.run(["git", *words], cwd=sources.ROOT, capture_output=True, text=True)


def too_long(subjects):
    return [subject for subject in subjects if len(subject) > LENGTH_MAX]


def main():
    assert too_long(["x" * 72, "y" * 73]) == ["y" * 73]
    first = git("log", "--diff-filter=A", "--format=%H", "--", THIS).stdout.split()
    if not first:
        print("skipped: no history here (not a checkout of git)")
        return 77
    wrong = too_long(git("log", "--format=%s", f"{first[-1]}..HEAD").stdout.splitlines())
    for subject in wrong:
        print(f"{len(subject)} characters, of {LENGTH_MAX}: {subject}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
