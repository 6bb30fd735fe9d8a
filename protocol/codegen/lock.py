"""wire.lock: what every call id has meant so far. Committed, so that a change of meaning cannot slip in unseen."""

import hashlib
import re

from model import SpecError
from output import Output

_LINE = re.compile(r"(0x[0-9a-f]{4}) (\w+)( .*)?")
# CUDA's structs travel as their bytes, so the headers' version belongs to the format (cmake/CudaHeaders.cmake).
_CUDA_VERSION = 13000


def _layout(fields):
    return ", ".join(field.layout for field in fields)


def lock_line(call):
    line = f"{call.id:#06x} {call.name}"
    if call.has_message:
        line += f" request({_layout(call.request)}) reply({_layout(call.reply)})"
    return line


def lock_text(spec):
    lines = ["# Call ids with their messages; written by generate.py --update-lock. An id is never given to another call."]
    return "\n".join(lines + [lock_line(call) for call in sorted(spec.calls, key=lambda c: c.id)]) + "\n"


def spec_hash(spec):
    """64 bits over everything both ends must agree on: ids, messages, numbers of handle kinds."""
    lines = [f"cuda {_CUDA_VERSION}"]
    lines += [f"{kind.value} {kind.name}" for kind in sorted(spec.kinds.values(), key=lambda k: k.value)]
    lines += [lock_line(call) for call in sorted(spec.calls, key=lambda c: c.id) if call.has_message]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def check_lock(spec, path):
    """Fails when an id of the lock is gone or means another call. New ids and changed messages are allowed here; a test
    asks for the lock to be current."""
    if not path.is_file():
        raise SpecError(f"{path.name} is missing: run generate.py --update-lock")
    calls = {call.id: call for call in spec.calls}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise SpecError(f"{path.name}:{number}: \"{line}\" does not parse")
        call_id, name = int(match[1], 16), match[2]
        if call_id not in calls:
            raise SpecError(f"{path.name}:{number}: id {match[1]} of {name} is gone from the spec; ids are never removed "
                            "(a call that is no longer forwarded becomes mode = \"unsupported\")")
        if calls[call_id].name != name:
            raise calls[call_id].where.error(f"id {match[1]} belongs to {name} ({path.name}:{number}); take a new one")


def update_lock(spec, path):
    if path.is_file():
        check_lock(spec, path)
    Output.write_text(path, lock_text(spec))
