"""server/<domain>.{h,cc} and server/dispatch.{h,cc}: the handlers of the worker and the table that finds them."""

from fields import presence
from output import ALL, block, in_namespace, spec_file


def _length(p, call):
    """The number of elements or bytes of an array parameter, as the request states it."""
    expression = (p.count if p.is_list else None) or p.bytes or p.text
    return expression if expression.isdigit() else f"request.{expression}"


def _in_argument(p, call):
    """(statements, argument) for a parameter that only goes in."""
    name, field = p.name, f"request.{p.name}"
    present = f"request.{presence(p)}" if presence(p) else ""

    def optional(expression):
        return f"{present} ? {expression} : nullptr" if present else expression

    if p.handle and p.is_list:
        lookup = "UseStream({})" if p.handle.name == "stream" else f"Use<{p.element}>({{}})"
        return [f"{p.element}* {name} = ScratchFor<{p.element}>(call, {field}.size());",
                f"if ({name} != nullptr) for (size_t i = 0; i < {field}.size(); ++i) "
                f"{name}[i] = call.{lookup.format(field + '[i]')};"], optional(name)
    if p.handle:
        lookup = f"UseStream({field})" if p.use and p.use.name == "stream" else f"Use<{p.c_type}>({field})"
        return [f"{p.c_type} {name} = call.{lookup};"], name
    if p.cstr:
        return [f"const char* {name} = ScratchText(call, {field});"], optional(name)
    if p.bytes:
        return [], optional(f"reinterpret_cast<{p.c_type}>(Writable({field}.data()))")
    if p.is_list:
        return [], optional(f"Writable({field}.data())" if not p.pointee_is_const else f"{field}.data()")
    if p.by_address:
        return [], optional(f"&{field}")
    if p.is_pointer:
        return [], f"reinterpret_cast<{p.c_type}>({field})"
    return [], field


def _out_argument(p, call):
    """(statements before the call, argument, statements after success) for an out or inout parameter."""
    name = p.name
    present = f"request.{presence(p)}" if presence(p) else ""

    def optional(expression):
        return f"{present} ? {expression} : nullptr" if present else expression

    if p.new:
        wanted = f"request.{name} != HandleId{{}} ? &{name} : nullptr" if p.nullable else f"&{name}"
        store = f"call.New(request.{name}, {name});"
        return [f"{p.element} {name}{{}};"], wanted, [f"if (request.{name} != HandleId{{}}) {store}" if p.nullable else store]
    if p.known and not p.is_list:
        return [f"{p.element} {name}{{}};"], optional(f"&{name}"), [f"reply.{name} = call.Known({p.known.cpp}, {name});"]
    if p.text or p.bytes or p.is_list:
        element = "char" if p.text else "std::byte" if p.bytes else p.element
        size = f"{name}_size"
        before = [f"const size_t {size} = {optional_size(p, call, present)};",
                  f"{element}* {name} = ScratchFor<{element}>(call, {size});"]
        if p.direction == "inout":
            before.append(f"if ({name} != nullptr && {size} != 0) "
                          f"std::memcpy({name}, request.{name}.data(), request.{name}.size_bytes());")
        if p.text:
            after = [f"reply.{name} = TextIn({name}, {size});"]
        else:
            filled = size
            if p.filled:
                filled = f"Smaller({size}, reply.{p.filled})"
            if p.known:
                after = [f"HandleId* {name}_ids = reply.{name}.Allocate({filled});",
                         f"for (size_t i = 0; i < reply.{name}.size(); ++i) "
                         f"{name}_ids[i] = call.Known({p.known.cpp}, {name}[i]);"]
            elif p.bytes:
                after = [f"reply.{name} = {{{name}, {filled}}};"]
            else:
                after = [f"reply.{name}.Borrow({name}, {filled});"]
        argument = optional(name)
        if p.c_type != "void*" and p.bytes:
            argument = optional(f"reinterpret_cast<{p.c_type}>({name})")
        return before, argument, after
    before = [f"reply.{name} = request.{name};"] if p.direction == "inout" else []
    return before, optional(f"&reply.{name}"), []


def optional_size(p, call, present):
    length = f"SizeOf({_length(p, call)})"
    return f"{present} ? {length} : 0" if present else length


def waits_for_turn(call):
    """Its generated handler asks the gate; one written by hand does so itself."""
    return not call.server_custom and call.may_wait


def waits_before(call):
    """The executor asks the gate, in Await_<name>, before a helper thread has the call: no other thread may."""
    return call.has_message and call.blocking and call.may_wait


def _generated_body(call):
    before, arguments, after = [], [], []
    has_reply = any(p.direction != "in" and not p.new and not p.ignored for p in call.params)
    for p in call.params:
        if p.ignored:
            arguments.append("{}")
        elif p.direction == "in":
            statements, argument = _in_argument(p, call)
            before += statements
            arguments.append(argument)
        else:
            statements, argument, stores = _out_argument(p, call)
            before += statements
            arguments.append(argument)
            after += stores
    frees = [f"call.Free(request.{p.name});" for p in call.params if p.free and not p.ignored]
    lines = [f"if (call.driver().{call.name} == nullptr) return call.Finish(MissingEntry(\"{call.name}\"));"]
    lines += [f"{call.name}Reply reply;"] if has_reply else []
    lines += before
    lines.append("if (!call.ok()) return call.Finish(call.error());")
    if waits_for_turn(call):
        lines.append(f"AwaitTurn(call, {call.streams[0].name}, {{{call.id:#06x}}});")
    lines.append(f"const CUresult result = call.driver().{call.name}({', '.join(arguments)});")
    if after or frees:
        lines += block("if (result == CUDA_SUCCESS)", after + frees)
    lines.append("call.Finish(result, reply);" if has_reply else "call.Finish(result);")
    return lines


def _handler(call):
    body = [f"{call.name}Request request;", "if (!request.Decode(in) || !in.AtEnd()) return call.Malformed();"]
    if call.server_custom:
        body.append(f"Do_{call.name}(call, request);")
    else:
        body += _generated_body(call)
    lines = block(f"void Handle_{call.name}(CallContext& call, Decoder& in)", body)
    if waits_before(call):
        # What is no message its handler refuses.
        lines += ["", *block(f"void Turn_{call.name}(CallContext& call, Decoder& in)", [
            f"{call.name}Request request;", f"if (request.Decode(in)) Await_{call.name}(call, request);"])]
    return lines


def _header(domain, calls):
    lines = [
        f"// Handlers of the domain `{domain}`, and the bodies that server/worker/calls writes by hand.",
        "// Called by the executor thread, a helper thread (blocking calls), or the aside thread (what host functions ask).",
        "#pragma once", "", f'#include "generated/messages/{domain}.h"', '#include "server/worker/call_context.h"', ""]
    body = []
    for call in calls:
        if call.has_message:
            body.append(f"void Handle_{call.name}(CallContext& call, Decoder& in);")
            if call.server_custom:
                body.append(f"void Do_{call.name}(CallContext& call, const {call.name}Request& request);")
            if waits_before(call):
                body.append("// Executor thread, before the call: waits for its turn, and ends nothing.")
                body.append(f"void Turn_{call.name}(CallContext& call, Decoder& in);")
                body.append(f"void Await_{call.name}(CallContext& call, const {call.name}Request& request);")
    return lines + in_namespace(body)


def _source(domain, calls):
    lines = ["", f'#include "generated/server/{domain}.h"', "", "#include <cstring>", "",
             '#include "generated/driver_table.h"', '#include "server/worker/handler_support.h"']
    if any(call.has_message and waits_for_turn(call) for call in calls):
        lines.append('#include "server/worker/await_turn.h"')
    lines.append("")
    body = []
    for call in calls:
        if call.has_message:
            body += _handler(call) + [""]
    return lines + in_namespace(body)


def _dispatch_header():
    return [
        "// Finds the handler of a record by its call id. Any thread; the tables are constant.",
        "#pragma once", "", "#include <cstdint>", "", '#include "protocol/wire/decoder.h"', "",
        *in_namespace([
            "class CallContext;", "",
            "// Runs the handler of call `id`, which ends the call. An id that no client may send: call.Malformed().",
            "void Dispatch(uint32_t id, CallContext& call, Decoder& in);",
            "// The driver may block in this call: run it on the helper thread.",
            "bool IsBlocking(uint32_t id);",
            "// Waits for the turn of a blocking call, before a helper thread has it; does not end the call. Nothing to do for a call",
            "// that gives no work. Executor thread.",
            "void AwaitTurnOf(uint32_t id, CallContext& call, Decoder& in);",
            "// A host function may send this call past the others: it may run beside the executor thread.",
            "bool IsAside(uint32_t id);",
            "// The call's name for logs; \"unknown call\" for an id without one.",
            "const char* CallName(uint32_t id);", "",
            "// What the scheduler is asked before the call runs.",
            "enum class GateKind : uint8_t { kNone, kLaunch, kGraph, kMemory, kCopy, kSet, kOrder };",
            "GateKind GateKindOf(uint32_t id);"])]


def _dispatch_source(spec):
    calls = sorted((c for c in spec.calls if not c.alias), key=lambda c: c.id)
    lines = ["", '#include "generated/server/dispatch.h"', "", "#include <algorithm>", "#include <iterator>", ""]
    lines += [f'#include "generated/server/{domain}.h"' for domain in spec.domains]
    rows = []
    for call in calls:
        handler = f"Handle_{call.name}" if call.has_message else "nullptr"
        gate = f"GateKind::k{call.gate.capitalize()}"
        turn = f"Turn_{call.name}" if waits_before(call) else "nullptr"
        rows.append(f'    {{{call.id:#06x}, "{call.name}", {handler}, {"true" if call.blocking else "false"}, '
                    f'{"true" if call.aside else "false"}, {gate}, {turn}}},')
    body = [
        "namespace {", "",
        *block("struct Entry", ["uint32_t id;", "const char* name;", "void (*handler)(CallContext&, Decoder&);",
                                "bool blocking;", "bool aside;", "GateKind gate;",
                                "void (*turn)(CallContext&, Decoder&);"], "};"), "",
        "// Sorted by id.", "constexpr Entry kEntries[] = {", *rows, "};", "",
        *block("const Entry* Find(uint32_t id)", [
            "const Entry* entry = std::lower_bound(std::begin(kEntries), std::end(kEntries), id,",
            "                                      [](const Entry& e, uint32_t wanted) { return e.id < wanted; });",
            "return entry != std::end(kEntries) && entry->id == id ? entry : nullptr;"]), "",
        "}  // namespace", "",
        *block("void Dispatch(uint32_t id, CallContext& call, Decoder& in)", [
            "const Entry* entry = Find(id);",
            "if (entry == nullptr || entry->handler == nullptr) return call.Malformed();",
            "entry->handler(call, in);"]), "",
        *block("bool IsBlocking(uint32_t id)", ["const Entry* entry = Find(id);",
                                                "return entry != nullptr && entry->blocking;"]), "",
        *block("void AwaitTurnOf(uint32_t id, CallContext& call, Decoder& in)", [
            "const Entry* entry = Find(id);", "if (entry != nullptr && entry->turn != nullptr) entry->turn(call, in);"]), "",
        *block("bool IsAside(uint32_t id)", ["const Entry* entry = Find(id);",
                                             "return entry != nullptr && entry->aside;"]), "",
        *block("const char* CallName(uint32_t id)", ["const Entry* entry = Find(id);",
                                                     'return entry != nullptr ? entry->name : "unknown call";']), "",
        *block("GateKind GateKindOf(uint32_t id)", ["const Entry* entry = Find(id);",
                                            "return entry != nullptr ? entry->gate : GateKind::kNone;"])]
    return lines + in_namespace(body)


def emit(spec, out):
    umbrella = ["// All handlers. Prefer the header of one domain: it changes less often.", "#pragma once", ""]
    for domain, calls in spec.domains.items():
        out.write(f"server/{domain}.h", spec_file(domain), _header(domain, calls))
        out.write(f"server/{domain}.cc", spec_file(domain), _source(domain, calls))
        umbrella.append(f'#include "generated/server/{domain}.h"')
    out.write("server_custom.h", ALL, umbrella)
    out.write("server/dispatch.h", ALL, _dispatch_header())
    out.write("server/dispatch.cc", ALL, _dispatch_source(spec))
