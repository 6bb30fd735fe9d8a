"""What a page of docs/ has marked: commands to be run, and files that its reader has written.

```sh is typed where Tessera is, ```sh serve serves meanwhile, ```sh systemd wants a machine with systemd and the packages. ```LANGUAGE FILE.END is a file.
"""

import re

BLOCK = re.compile(r"^```sh( serve)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SYSTEMD = re.compile(r"^```sh systemd\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```\w+ (\w+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_of(body):
    return [line.strip() for line in body.splitlines() if line.strip()]


def blocks(text):
    """(whether it serves, its lines) of each block that is to be run."""
    return [(bool(serves), lines_of(body)) for serves, body in BLOCK.findall(text)]


def commands(text):
    """The lines of all of them."""
    return [line for _, lines in blocks(text) for line in lines]


def systemd_commands(text):
    """The lines of all blocks that want systemd."""
    return [line for body in SYSTEMD.findall(text) for line in lines_of(body)]
