#!/usr/bin/env python3
"""Turns protocol/spec/*.toml into C++. Python 3.11, standard library only.

  generate.py --out DIR        writes the generated tree into DIR (build/generated); unchanged files are left alone
  generate.py --check          only checks the spec
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import check  # noqa: E402
import emit_checks  # noqa: E402
import emit_client  # noqa: E402
import emit_driver  # noqa: E402
import emit_messages  # noqa: E402
import emit_recording  # noqa: E402
import emit_server  # noqa: E402
import emit_tables  # noqa: E402
import fields  # noqa: E402
import parse  # noqa: E402
from model import SpecError  # noqa: E402
from output import Output  # noqa: E402


def load(directory):
    """The checked spec with its messages derived."""
    spec = parse.parse_spec(directory)
    check.check_spec(spec)
    for call in spec.calls:
        fields.derive(call)
    return spec


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--spec", default=HERE.parent / "spec", type=pathlib.Path, help="directory of the TOML files")
    arguments.add_argument("--out", type=pathlib.Path, help="directory of the generated tree")
    arguments.add_argument("--check", action="store_true", help="only check the spec")
    options = arguments.parse_args()
    if not options.out and not options.check:
        arguments.error("nothing to do: give --out or --check")
    try:
        spec = load(options.spec)
        if options.out:
            out = Output(options.out)
            for emitter in (emit_messages, emit_client, emit_server, emit_driver, emit_tables, emit_checks,
                            emit_recording):
                emitter.emit(spec, out)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
