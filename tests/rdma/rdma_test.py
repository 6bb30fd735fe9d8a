#!/usr/bin/env python3
"""RDMA is really executed: links and the whole product over soft-RoCE, in a guest that has it. Exits with 77, which ctest calls
skipped, where there can be no such guest.

usage: rdma_test.py SOURCE_DIRECTORY BUILD_DIRECTORY
"""

import os
import re
import shlex
import sys

import guest

GUEST_SECONDS_MAX = 500


def main():
    source, build = (os.path.abspath(name) for name in sys.argv[1:])
    command = f'build={shlex.quote(build)} source={shlex.quote(source)} address={guest.ADDRESS}\n(. "$source/tests/rdma/in_guest")'
    try:
        output, code = guest.run(command, os.path.join(build, "tests/kernels"), GUEST_SECONDS_MAX, source, build)
    except guest.NotPossible as why:
        print(f"skipped, there is no guest with RDMA here: {why}")
        return 77
    print(output)
    # A line that came often in short time stands there once, with how often.
    often = r" \(\d+ times more since the last such line\)"
    transports = {re.sub(often, "", found) for found in re.findall(r"the link (?:to|of) \S+ goes over (.*)", output)}
    if code != 0 or "the product works over RDMA" not in output:
        print("failed: the command in the guest " + ("did not end" if code is None else f"ended with {code}"))
        return 1
    if not transports or not all(re.fullmatch(r"rc_verbs/rxe0:1(\.\d+)?\s*", one) for one in transports):
        print(f"failed: the links went over {transports}, not over RDMA alone")
        return 1
    print("the links went over " + ", ".join(map(str.strip, transports)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
