"""Rules that hold between the fields of a table and between tables. Every violation is a SpecError."""

import re

from model import WORKS, SpecError

_SCALAR_COUNT_TYPES = ("int", "unsigned int", "size_t", "unsigned long long", "cuuint32_t", "cuuint64_t")


def _check_direction(param):
    where = param.where
    if not param.is_pointer:
        if param.direction != "in":
            raise where.error(f"parameter `{param.name}` is {param.direction}, but {param.c_type} is no pointer")
        return
    if param.direction in ("out", "inout") and param.pointee_is_const:
        raise where.error(f"parameter `{param.name}` is {param.direction}, but points to const")
    # A writable pointer that is only read: the driver's prototype says nothing, so the row must say what is behind it.
    if param.direction == "in" and not param.pointee_is_const and param.c_type != "void*":
        if not (param.count or param.bytes or param.use or param.ignored or param.cstr):
            raise where.error(f"parameter `{param.name}` is in, but {param.c_type} points to writable memory: it is out "
                              "or inout, or needs count(), bytes() or ignored")


def _check_lengths(call, param):
    for annotation in ("count", "bytes", "text", "filled"):
        expression = getattr(param, annotation)
        if expression is None or (expression.isdigit() and annotation != "filled"):
            continue
        other = call.param(expression)
        if other is None:
            raise param.where.error(f"{annotation}({expression}) of `{param.name}`: there is no such parameter")
        kind = other.element if other.is_pointer else other.c_type
        if kind not in _SCALAR_COUNT_TYPES or other.count:
            raise param.where.error(f"{annotation}({expression}) of `{param.name}`: `{expression}` is no number")
        if other.ignored and not param.ignored:
            raise param.where.error(f"{annotation}({expression}) of `{param.name}`: `{expression}` is ignored")
        if annotation == "filled" and not (other.is_pointer and other.direction in ("out", "inout")):
            raise param.where.error(f"filled({expression}) of `{param.name}`: `{expression}` is no out parameter")
        if annotation != "filled" and other.is_pointer and other.direction == "out":
            raise param.where.error(f"{annotation}({expression}) of `{param.name}`: `{expression}` is only out")
    if param.filled and not (param.count and param.direction == "out"):
        raise param.where.error(f"filled() of `{param.name}` needs count() and direction out")


def _check_annotations(param):
    where, name = param.where, param.name
    lives = [word for word in ("use", "free", "new", "known") if getattr(param, word)]
    if len(lives) > 1:
        raise where.error(f"parameter `{name}` has both {lives[0]}() and {lives[1]}()")
    behind = [word for word in ("count", "bytes", "text", "cstr") if getattr(param, word)]
    if len(behind) > 1:
        raise where.error(f"parameter `{name}` has both {behind[0]} and {behind[1]}")
    if behind and not param.is_pointer:
        raise where.error(f"parameter `{name}` has {behind[0]}, but {param.c_type} is no pointer")
    if param.text and (param.direction != "out" or param.c_type != "char*"):
        raise where.error(f"parameter `{name}`: text() is for out char*")
    if param.cstr and (param.direction != "in" or param.c_type not in ("const char*", "char*")):
        raise where.error(f"parameter `{name}`: cstr is for in const char*")
    if param.null and not (param.use or param.free):
        raise where.error(f"parameter `{name}`: null() is for use() and free()")
    if param.handle:
        held = param.element if param.is_pointer else param.c_type
        if held != param.handle.c_type:
            raise where.error(f"parameter `{name}` holds {held}, but handles of kind {param.handle.name} are "
                              f"{param.handle.c_type}")
        if (param.new or param.known) and param.direction != "out":
            raise where.error(f"parameter `{name}`: {lives[0]}() is for out parameters")
        if (param.use or param.free) and param.direction != "in":
            raise where.error(f"parameter `{name}`: {lives[0]}() is for in parameters")


def _check_complete(call, param, spec):
    """For parameters that make up a generated message: nothing may be left to guess."""
    where, name = param.where, param.name
    if param.ignored:
        return
    if param.device_only and (not param.by_address or param.nullable or param.is_list):
        raise where.error(f"parameter `{name}` is device_only, but not a pointer to one place")
    if param.nullable and not (param.is_pointer or param.handle):
        raise where.error(f"parameter `{name}` is nullable, but neither a pointer nor a handle")
    held = param.element if param.is_pointer else param.c_type
    if not param.handle and any(kind.c_type == held for kind in spec.kinds.values()):
        raise where.error(f"parameter `{name}` is a handle ({held}): it needs use(), free(), new() or known(), "
                          "or ignored")
    if held in spec.not_plain and not call.client_custom:
        raise where.error(f"parameter `{name}`: {held} holds pointers or handles and cannot travel as plain bytes; it "
                          "needs client = \"custom\", or ignored and a `request` or `reply` of its own")
    if param.handle and param.is_pointer and param.direction == "in" and not param.count:
        raise where.error(f"parameter `{name}` points to handles: it needs count()")
    if param.new and param.count:
        raise where.error(f"parameter `{name}`: an array of new handles needs a `request` of its own")
    if param.by_address and not param.handle and not (param.count or param.bytes or param.text or param.cstr):
        if param.element in ("void", "char"):
            raise where.error(f"parameter `{name}`: what {param.c_type} points to needs bytes(), text(), cstr or count()")
    if param.by_address and "*" in param.element and not (param.cstr or param.text):
        raise where.error(f"parameter `{name}`: {param.c_type} points to pointers, which mean nothing to the other side; "
                          "it needs ignored and a `request` or `reply` of its own")
    if param.count and param.element == "void":
        raise where.error(f"parameter `{name}`: an array of void needs bytes(), not count()")


def _check_call(call, spec):
    where = call.where
    if not re.fullmatch(r"cu[A-Z]\w*|tessera[A-Z]\w*", call.name):
        raise where.error("the name is neither that of a driver function nor of a record of Tessera's own")
    if call.internal != call.name.startswith("tessera"):
        raise where.error("internal = true belongs to the tables named tessera...")
    if not 0 < call.id < 0x10000:
        raise where.error(f"id {call.id:#x} is not between 1 and 0xffff")
    if call.internal:
        if call.params or call.client_custom or not call.server_custom or call.request_override is None:
            raise where.error("an internal record has a `request` and server = \"custom\", and no params or client")
    elif not call.since:
        raise where.error("`since` is missing")
    if (call.mode == "unsupported") != bool(call.reason):
        raise where.error("`reason` is for mode \"unsupported\", and required there")
    if call.blocking and call.mode != "sync":
        raise where.error("blocking = true needs mode = \"sync\"")
    if call.aside and (call.blocking or call.internal or call.mode not in ("sync", "async") or call.context != "none"):
        raise where.error("aside = true needs mode sync or async and context = \"none\", and is not for blocking calls")
    if call.alias:
        _check_alias(call, spec)
    if not call.has_message and (call.server_custom or call.request_override is not None or
                                 call.reply_override is not None):
        raise where.error("a call without a message has no `request`, `reply` or server")
    if call.reason == "next":  # not annotated yet
        return
    _check_work(call)
    for param in call.params:
        _check_direction(param)
        _check_annotations(param)
        _check_lengths(call, param)
    if not call.has_message:
        return
    both_custom = (call.client_custom or call.internal) and call.server_custom
    if (call.request_override is not None or call.reply_override is not None) and not both_custom:
        raise where.error("`request` and `reply` need client = \"custom\" and server = \"custom\"")
    for param in call.params:
        carried = (call.request_override is None and (param.direction != "out" or param.new)) or (
            call.reply_override is None and param.direction != "in" and not param.new)
        if carried:
            _check_complete(call, param, spec)
    outputs = [p.name for p in call.params if p.direction != "in" and not p.new and not p.ignored]
    if call.mode == "async" and outputs and not (call.client_custom and call.server_custom):
        raise where.error(f"mode \"async\" has no reply, but `{outputs[0]}` is an output")


def _check_work(call):
    where, work = call.where, f"work = \"{call.work}\""
    if call.alias:
        if call.work:
            raise where.error(f"`work` is said by [{call.alias}], of which this is an alias")
        return
    if call.names_stream and not call.work:
        choices = ", ".join(f'"{choice}"' for choice in WORKS)
        raise where.error(f"names a stream: write `work`, what its record has the device do there; one of {choices}")
    if not call.has_message and call.work not in ("", "none"):
        raise where.error(f"{work}: a call without a message gives no work; write \"none\"")
    if call.work_amount and not WORKS[call.work].has_amount:
        raise where.error(f"{work} has no amount")
    if call.work_amount and not call.param(call.work_amount):
        raise where.error(f"{work}: there is no parameter `{call.work_amount}`")
    if call.blocking and call.may_wait and not call.server_custom:
        raise where.error(f"{work}: of a blocking call only a handwritten body waits for its turn; write server = \"custom\"")
    if call.touches and len(call.streams) != 1:
        raise where.error(f"{work} goes into a stream: exactly one field of the request must be one, or a list of them")
    if call.touches == "ranges" and not (call.client_custom or call.internal):
        raise where.error(f"{work}: only a handwritten body knows which memory; write client = \"custom\"")


def _check_alias(call, spec):
    other = spec.find(call.alias)
    if other is None or other.alias:
        raise call.where.error(f"alias = \"{call.alias}\" is no call with a body of its own")
    if len(call.params) != len(other.params):
        raise call.where.error(f"alias = \"{call.alias}\" has another number of parameters")


def check_spec(spec):
    ids, names = {}, {}
    for call in spec.calls:
        for table, key, what in ((ids, call.id, f"id {call.id:#06x}"), (names, call.name, "name")):
            if key in table:
                raise call.where.error(f"has the {what} of [{table[key].name}] in {table[key].where.file}")
            table[key] = call
    for call in spec.calls:
        _check_call(call, spec)
    if not spec.calls:
        raise SpecError("the spec holds no calls")
