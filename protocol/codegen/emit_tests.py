"""tests/<domain>_messages.cc: how to fill each message with values, for tests/protocol/spec/message_test.cc;
tests/<domain>_calls.cc: how to call each export, for tests/protocol/spec/no_silent_success_test.cc;
tests/all_work.cc: the calls that have something prepared for them, for tests/client-stub/device_work/device_work_test.cc."""

from emit_messages import messages
from output import block, in_namespace, indent, spec_file


def _fill(fields):
    by_name = {field.name: field for field in fields}
    lengths = sorted({f.length_field for f in fields if f.length_field and not f.length_field.isdigit()
                      and f.length_field in by_name})
    lines = [f"const size_t {name}_length = source.Length();" for name in lengths]
    for field in fields:
        name, form = field.name, field.form
        length = "source.Length()"
        if field.length_field:
            length = f"{field.length_field}_length" if field.length_field in lengths else \
                (field.length_field if field.length_field.isdigit() else length)
        if field.optional:
            length = f"message.has_{name} ? {length} : 0"
        if name in lengths:
            lines.append(f"message.{name} = static_cast<{field.c_type}>({name}_length);")
        elif form == "handle":
            lines.append(f"message.{name} = source.Pod<HandleId>();")
        elif form == "pod":
            lines.append(f"message.{name} = source.Pod<{field.c_type}>();")
        elif form == "bytes":
            lines.append(f"message.{name} = source.Bytes({length});")
        elif form == "string":
            lines.append(f"message.{name} = source.Text();")
        elif form == "strings":
            lines.append(f"message.{name} = {{source.Text(), source.Text()}};")
        else:
            element = "HandleId" if form == "list_handle" else field.c_type
            lines.append(f"source.Elements<{element}>({length}, &message.{name});")
    return lines


def _argument(p):
    """An argument that a driver could accept: live handles, memory for every pointer, small numbers."""
    if p.is_pointer:
        if p.handle and p.direction == "in":
            return f"source.Handles<{p.c_type}>({p.handle.cpp})"
        return f"source.{'Output' if p.direction == 'out' else 'Input'}<{p.c_type}>()"
    if p.handle:
        return f"source.Handle<{p.c_type}>({p.handle.cpp})"
    if p.c_type == "CUdeviceptr":
        return "source.DevicePointer()"
    return f"source.Number<{p.c_type}>({'0' if p.c_type == 'CUdevice' else '1'})"


def _emit_calls(spec, domain, calls, out):
    rows = []
    for call in calls:
        resolved = spec.find(call.alias) if call.alias else call
        arguments = ", ".join(_argument(p) for p in call.params)
        outputs = "true" if any(p.direction == "out" for p in call.params) else "false"
        for symbol in call.symbols:
            rows.append(f'  calls->push_back({{"{symbol}", {resolved.id:#06x}, "{resolved.mode}", {outputs}, '
                        f"[](ArgumentSource& source) {{ return ::{symbol}({arguments}); }}}});")
    out.write(f"tests/{domain}_calls.cc", spec_file(domain), [
        "", "#include <cuda.h>", "#include <cudaProfiler.h>", "", '#include "tests/protocol/spec/call_check.h"', "",
        *in_namespace([f"void AddCalls_{domain}(std::vector<TestedCall>* calls) {{", *rows, "}"])])


def emit(spec, out):
    for domain, calls in spec.domains.items():
        _emit_calls(spec, domain, calls, out)
        body, rows = [], []
        for name, _, fields in messages(calls):
            body += block(f"static void Fill(ValueSource& source, {name}& message)", _fill(fields)) + [""]
            rows.append(f'  Add<{name}>("{name}", messages);')
        out.write(f"tests/{domain}_messages.cc", spec_file(domain), [
            "", f'#include "generated/messages/{domain}.h"', '#include "tests/protocol/spec/message_check.h"', "",
            *in_namespace(body + [f"void AddMessages_{domain}(std::vector<TestedMessage>* messages) {{", *rows, "}"])])
    out.write("tests/all_messages.cc", "protocol/spec/*.toml", [
        "", '#include "tests/protocol/spec/message_check.h"', "", *in_namespace(
            [f"void AddMessages_{domain}(std::vector<TestedMessage>* messages);" for domain in spec.domains] + [""] +
            block("std::vector<TestedMessage> AllMessages()", ["std::vector<TestedMessage> messages;"] + [
                f"AddMessages_{domain}(&messages);" for domain in spec.domains] + ["return messages;"]))])
    out.write("tests/all_calls.cc", "protocol/spec/*.toml", [
        "", '#include "tests/protocol/spec/call_check.h"', "", *in_namespace(
            [f"void AddCalls_{domain}(std::vector<TestedCall>* calls);" for domain in spec.domains] + [""] +
            block("std::vector<TestedCall> AllCalls()", ["std::vector<TestedCall> calls;"] + [
                f"AddCalls_{domain}(&calls);" for domain in spec.domains] + ["return calls;"]))])
    out.write("tests/all_work.cc", "protocol/spec/*.toml", [
        "", '#include "tests/client-stub/device_work/device_work_rows.h"', "", *in_namespace(
            block("std::vector<WorkRow> AllWork()", [
                "return {", *indent([f'{{"{call.name}", {call.id:#06x}, Touches::k{call.touches.capitalize()}}},'
                                     for call in spec.calls if call.touches]), "};"]))])
