#!/usr/bin/env python3
"""Subjects of commits have at most 72 characters, since FIRST. Skipped (77), saying so, where there is no history to look at."""

import subprocess
import sys

import sources

LENGTH_MAX = 72
FIRST = "b427e1ad26031823c4db7e0300d19dd57eb74d5a"  # the last that was not asked


def git(*words):
    return subprocess.run(["git", *words], cwd=sources.ROOT, capture_output=True, text=True)


def too_long(subjects):
    return [subject for subject in subjects if len(subject) > LENGTH_MAX]


def main():
    assert too_long(["x" * 72, "y" * 73]) == ["y" * 73]
    if git("merge-base", "--is-ancestor", FIRST, "HEAD").returncode != 0:
        print(f"skipped: {FIRST[:12]} is not in the history here (not a checkout of git, or a shallow one)")
        return 77
    wrong = too_long(git("log", "--format=%s", f"{FIRST}..HEAD").stdout.splitlines())
    for subject in wrong:
        print(f"{len(subject)} characters, of {LENGTH_MAX}: {subject}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
