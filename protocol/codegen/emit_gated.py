"""tests/gated_calls.cc: the calls that name a stream or give the device work, and how to fill their records with arguments that
have names, for tests/server/worker/gated/gated_calls_test.cc."""

from output import ALL, block, in_namespace, indent


def _take(field):
    """The statement that fills one field of the request."""
    name, into = f'"{field.name}"', f"request.{field.name}"
    if field.form in ("handle", "list_handle"):
        return f"given.{'Handle' if field.form == 'handle' else 'Handles'}({name}, {field.kind.cpp}, &{into});"
    take = {"pod": "Plain", "list_pod": "Elements", "bytes": "Bytes", "string": "Text", "strings": "Texts"}[field.form]
    return f"given.{take}({name}, &{into});"


def _row(call):
    lines = [f"{call.name}Request request;", *[_take(field) for field in call.request], "request.Encode(out);"]
    return block(f'{{"{call.name}", {call.id:#06x}, [](Arguments& given, Encoder& out)', lines, "}},")


def emit(spec, out):
    domains = {domain: [call for call in calls if call.has_message and (call.names_stream or call.gate != "none")]
               for domain, calls in spec.domains.items()}
    rows = [line for calls in domains.values() for call in calls for line in _row(call)]
    out.write("tests/gated_calls.cc", ALL, [
        "", '#include "tests/server/worker/gated/gated_call.h"', "",
        *[f'#include "generated/messages/{domain}.h"' for domain, calls in domains.items() if calls], "",
        *in_namespace(block("std::vector<GatedCall> AllGatedCalls()", ["return {", *indent(rows), "};"]))])
