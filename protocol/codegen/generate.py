#!/usr/bin/env python3
"""Turns protocol/spec/*.toml into C++. Python 3.11, standard library only.

  generate.py --out DIR               writes the generated tree into DIR (build/generated); unchanged files are left alone
  generate.py --check                 only checks the spec and wire.lock
  generate.py --update-lock           rewrites protocol/spec/wire.lock; to be committed
  generate.py --support-table FILE    rewrites the table of supported functions in FILE (docs/support.md); to be committed
  generate.py --current FILE          fails unless wire.lock and the table in FILE are current
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
import emit_gated  # noqa: E402
import emit_messages  # noqa: E402
import emit_recording  # noqa: E402
import emit_server  # noqa: E402
import emit_tables  # noqa: E402
import emit_tests  # noqa: E402
import fields  # noqa: E402
import lock  # noqa: E402
import parse  # noqa: E402
import support_table  # noqa: E402
from model import SpecError  # noqa: E402
from output import ALL, Output, in_namespace  # noqa: E402

EMITTERS = (emit_messages, emit_client, emit_server, emit_driver, emit_tables, emit_checks, emit_recording, emit_tests,
            emit_gated)


def load(directory):
    """The checked spec with its messages derived."""
    spec = parse.parse_spec(directory)
    check.check_spec(spec)
    for call in spec.calls:
        fields.derive(call)
    return spec


def emit_all(spec, directory):
    out = Output(directory)
    for emitter in EMITTERS:
        emitter.emit(spec, out)
    out.write("spec_hash.h", ALL, [
        "// What both ends must agree on, compared in the handshake. Include it there alone: it changes with every message.",
        "#pragma once", "", "#include <cstdint>", "",
        *in_namespace([f"inline constexpr uint64_t kSpecHash = 0x{lock.spec_hash(spec)};"])])
    return out


def check_current(spec, lock_path, document):
    if lock_path.read_text(encoding="utf-8") != lock.lock_text(spec):
        raise SpecError(f"{lock_path.name} is not current: run generate.py --update-lock and commit it")
    if not support_table.is_current(spec, document):
        raise SpecError(f"the table in docs/{document.name} is not current: run generate.py --support-table docs/{document.name}")


def main(argv=None):
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--spec", default=HERE.parent / "spec", type=pathlib.Path, help="directory of the TOML files")
    arguments.add_argument("--out", type=pathlib.Path, metavar="DIR")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--update-lock", action="store_true")
    arguments.add_argument("--support-table", type=pathlib.Path, metavar="FILE")
    arguments.add_argument("--current", type=pathlib.Path, metavar="FILE")
    options = arguments.parse_args(argv)
    if not (options.out or options.check or options.update_lock or options.support_table or options.current):
        arguments.error("nothing to do")
    lock_path = options.spec / "wire.lock"
    try:
        spec = load(options.spec)
        if options.update_lock:
            lock.update_lock(spec, lock_path)
        lock.check_lock(spec, lock_path)
        if options.support_table:
            support_table.update(spec, options.support_table)
        if options.current:
            check_current(spec, lock_path, options.current)
        if options.out:
            emit_all(spec, options.out)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
