"""client/<domain>.{h,cc}: the exported functions of the stub and the generated bodies behind them."""

from fields import presence
from output import ALL, block, in_namespace, spec_file

_MODES = {"local": "kLocal", "cached": "kCached", "async": "kAsync", "sync": "kSync", "unsupported": "kUnsupported"}
_INVALID = "CUDA_ERROR_INVALID_VALUE"


def _separated(*lists):
    return ", ".join(part for part in lists if part)


def arguments(call):
    return ", ".join(p.name for p in call.params)


def _info(call):
    reason = '"' + call.reason.replace("\\", "\\\\").replace('"', '\\"') + '"' if call.reason else '""'
    return (f'inline constexpr CallInfo kInfo_{call.name}{{"{call.name}", {call.id:#06x}, CallInfo::Mode::{_MODES[call.mode]}, '
            f"CallInfo::Context::k{call.context.capitalize()}, CallInfo::Capture::k{call.capture.capitalize()}, "
            f'{"true" if call.errors == "deferred" else "false"}, {reason}{", true" if call.aside else ""}}};')


def _length(expression, call):
    """The C++ expression for e of count(e), bytes(e), text(e)."""
    if expression.isdigit():
        return expression
    other = call.param(expression)
    return f"*{expression}" if other.is_pointer else expression


def _null_checks(call):
    """A null pointer that must not be one. An array of no elements may be null."""
    lines = []
    for p in call.params:
        if not p.by_address or p.nullable or p.ignored:
            continue
        condition = f"{p.name} == nullptr"
        length = p.count if p.is_list else p.bytes or p.text
        if length and not length.isdigit():
            condition += f" && {_length(length, call)} != 0"
            if call.param(length).is_pointer:
                condition = f"{length} != nullptr && {condition}"
        lines.append(f"if ({condition}) return call.Fail({_INVALID});")
    return lines


def _lengths(call):
    """Declares `<name>_size` for every array, checked for being a sensible number."""
    lines = []
    for p in call.params:
        length = (p.count if p.is_list else None) or p.bytes or p.text
        if not length or p.ignored:
            continue
        other = call.param(length)
        lines.append(f"size_t {p.name}_size = 0;")
        call_it = f"if (!LengthOf({_length(length, call)}, &{p.name}_size)) return call.Fail({_INVALID});"
        guards = [f"{length} != nullptr"] if other is not None and other.is_pointer else []
        if p.nullable:
            guards.append(f"{p.name} != nullptr")
        lines.append(f"if ({' && '.join(guards)}) {{ {call_it} }}" if guards else call_it)
    return lines


def _use(p, value):
    nullable = p.nullable and not p.is_list  # the array may be null then, not its elements
    null = f", {'true' if nullable else 'false'}, {p.null}" if nullable or p.null else ""
    if p.use and p.use.name == "stream":
        return f"call.UseStream({value})"
    return f"call.{'Free' if p.free else 'Use'}({p.handle.cpp}, {value}{null})"


# Plain types that say which device is meant.
_DEVICE = "CUdevice"
_WITH_DEVICE = ("CUmemLocation", "CUmemAllocationProp", "CUmemPoolProps", "CUmemAccessDesc")


def _routing(call, spec):
    """With several servers: statements that route the call to the one that has what it names (client-stub/call/call.h)."""
    if call.route == "none":
        return []
    kinds = {kind.c_type for kind in spec.kinds.values()}
    devices, handles, addresses = [], [], []
    for p in call.params:
        if p.direction != "in" or p.ignored:
            continue
        if p.c_type == _DEVICE:
            devices.append(f"call.RouteToDevice({p.name});")
        elif p.c_type in _WITH_DEVICE:
            devices.append(f"call.RouteToDevices({p.name});")
        elif p.is_pointer and p.element in _WITH_DEVICE:
            some = f" && {_length(p.count, call)} != 0" if p.is_list else ""
            devices.append(f"if ({p.name} != nullptr{some}) call.RouteToDevices(*{p.name});")
        elif p.c_type in kinds:
            handles.append(f"call.RouteToHandle({p.name});")
        elif p.c_type in ("CUdeviceptr", "CUdeviceptr_v1"):
            addresses.append(f"call.RouteToAddress({p.name});")
    # Where there is a stream the work is done where the stream is, and memory of another server is unknown there.
    lines = devices + handles + (addresses if not any(p.c_type == "CUstream" for p in call.params) else [])
    return block("if (SeveralServers()) [[unlikely]]", lines) if lines else []


def _fill(p):
    """Statements that put parameter p into the request."""
    name, field = p.name, f"request.{p.name}"
    lines = []
    guard = f"if ({name} != nullptr) " if presence(p) else ""
    if presence(p):
        lines.append(f"request.has_{name} = {name} != nullptr;")
    if p.new:
        nullable = f"if ({name} != nullptr) " if p.nullable else ""
        lines.append(f"{nullable}{field} = call.Mint({p.new.cpp});")
    elif p.direction == "out":
        pass
    elif p.handle and p.is_list:
        lines += block(guard.rstrip() if guard else "", [
            f"HandleId* ids = {field}.Allocate({name}_size);",
            f"for (size_t i = 0; i < {name}_size; ++i) ids[i] = {_use(p, f'{name}[i]')};"])
    elif p.handle:
        lines.append(f"{field} = {_use(p, name)};")
    elif p.cstr:
        lines.append(f"{guard}{field} = {name};")
    elif p.bytes:
        lines.append(f"{guard}{field} = {{reinterpret_cast<const std::byte*>({name}), {name}_size}};")
    elif p.is_list and p.element in _WITH_DEVICE:
        lines += block(guard.rstrip() if guard else "", [
            f"{p.element}* numbered = {field}.Allocate({name}_size);",
            f"for (size_t i = 0; i < {name}_size; ++i) numbered[i] = call.DeviceNumbers({name}[i]);"])
    elif p.is_list:
        lines.append(f"{guard}{field}.Borrow({name}, {name}_size);")
    elif p.by_address and p.element in _WITH_DEVICE:
        lines.append(f"{guard}{field} = call.DeviceNumbers(*{name});")
        if p.device_only:
            lines.append(f"call.DeviceOnly({f'*{name}' if p.element == 'CUmemLocation' else f'{name}->location'});")
    elif p.by_address:
        lines.append(f"{guard}{field} = *{name};")
    elif p.is_pointer:
        lines.append(f"{field} = reinterpret_cast<uint64_t>({name});")
    elif p.c_type == _DEVICE:
        lines.append(f"{field} = call.DeviceNumber({name});")
    elif p.c_type in _WITH_DEVICE:
        lines.append(f"{field} = call.DeviceNumbers({name});")
    else:
        lines.append(f"{field} = {name};")
    return lines


def _store(p):
    """Statements that write parameter p back to the caller after success."""
    name, field = p.name, f"reply.{p.name}"
    guard = f"if ({name} != nullptr) " if p.nullable else ""
    if p.new:
        return [f"{guard}*{name} = ToObject<{p.element}>(request.{name});"]
    if p.known and p.is_list:
        return block(f"for (size_t i = 0; i < {field}.size(); ++i)", [
            f"call.Adopt({field}[i]);", f"{name}[i] = ToObject<{p.element}>({field}[i]);"])
    if p.known:
        return [f"call.Adopt({field});", f"{guard}*{name} = ToObject<{p.element}>({field});"]
    if p.text:
        return [f"{guard}StoreText({field}, {name}, {name}_size);"]
    if p.bytes or p.is_list:
        return [f"if (!{field}.empty()) std::memcpy({name}, {field}.data(), {field}.size_bytes());"]
    if p.element == _DEVICE:
        return [f"{guard}*{name} = call.Ordinal({field});"]
    if p.element in _WITH_DEVICE:
        return [f"{guard}*{name} = call.Ordinals({field});"]
    return [f"{guard}*{name} = {field};"]


def _outputs(call):
    return [p for p in call.params if p.direction != "in" and not p.new and not p.ignored]


def _generated_body(call, spec):
    new = [p for p in call.params if p.new and not p.ignored]
    outputs = _outputs(call)
    lines = [f"Call call(kInfo_{call.name}, per_thread);", *_routing(call, spec), "if (!call.ok()) return call.result();"]
    lines += _null_checks(call) + _lengths(call)
    lines.append(f"{call.name}Request request;")
    for p in call.params:
        if not p.ignored:
            lines += _fill(p)
    lines.append("if (!call.ok()) return call.result();")
    sender = "call"
    if call.touches:
        sender = "work"
        lines.append("WorkOnAnything work(call);")
    if call.mode == "async":
        send = f"{sender}.Async(request)"
    elif outputs:
        lines.append(f"{call.name}Reply reply;")
        send = f"{sender}.Sync(request, &reply)"
    else:
        send = f"{sender}.Sync(request)"
    if not new and not outputs:
        return lines + [f"return {send};"]
    lines += [f"const CUresult result = {send};", "if (result != CUDA_SUCCESS) return result;"]
    for p in outputs:
        if p.is_list or p.bytes:
            lines.append(f"if (reply.{p.name}.size() > {p.name}_size) return call.MalformedReply();")
    for p in new + outputs:
        lines += _store(p)
    return lines + ["return CUDA_SUCCESS;"]


def _enter(call, spec):
    head = f"CUresult Enter_{call.name}({_separated('bool per_thread', call.prototype)})"
    if call.alias:
        other = spec.find(call.alias)
        passed = []
        for mine, theirs in zip(call.params, other.params):
            same = mine.c_type == theirs.c_type
            passed.append(mine.name if same else f"static_cast<{theirs.c_type}>({mine.name})")
        body = [f"return Enter_{call.alias}({_separated('per_thread', ', '.join(passed))});"]
    elif call.mode == "unsupported":
        body = [f"return Unsupported(kInfo_{call.name});"]
    elif call.client_custom:
        body = [f"Call call(kInfo_{call.name}, per_thread);", *_routing(call, spec),
                f"return Custom_{call.name}({_separated('call', arguments(call))});"]
    else:
        body = _generated_body(call, spec)
    return block(head, body)


def _exports(call):
    """No exception may leave the library; std::exception alone is caught, so that thread cancellation still unwinds."""
    lines = []
    for symbol in call.symbols:
        per_thread = "true" if symbol != call.name else "false"
        lines.append(f"TESSERA_EXPORT CUresult CUDAAPI {symbol}({call.prototype}) "
                     f"{{ TESSERA_GUARD(Enter_{call.name}({_separated(per_thread, arguments(call))})); }}")
    return lines


def _header(domain, calls, spec):
    lines = [
        f"// Entries of the domain `{domain}`: what the spec says of each call, the entry behind each export, and the",
        "// bodies that client-stub/calls writes by hand. Entries may be called by any thread of the application.",
        "#pragma once", "", "#include <cuda.h>", "#include <cudaProfiler.h>", "", '#include "client-stub/process/call_info.h"',
        f'#include "generated/messages/{domain}.h"', ""]
    body = ["class Call;  // client-stub/call/call.h", ""]
    for call in calls:
        if call.internal:
            continue
        if not call.alias:
            body.append(_info(call))
        body.append(f"CUresult Enter_{call.name}({_separated('bool per_thread', call.prototype)});")
        if call.client_custom and not call.alias and call.mode != "unsupported":
            body.append(f"CUresult Custom_{call.name}({_separated('Call& call', call.prototype)});")
        body.append("")
    return lines + in_namespace(body)


def _source(domain, calls, spec):
    others = sorted({spec.find(c.alias).domain for c in calls if c.alias} - {domain})
    lines = ["", f'#include "generated/client/{domain}.h"', "", "#include <cstring>", "", '#include "client-stub/call/call.h"']
    if any(call.touches and not (call.client_custom or call.internal) for call in calls):
        lines.append('#include "client-stub/device_work/device_work.h"')
    lines += [f'#include "generated/client/{other}.h"' for other in others]
    lines += ['#include "protocol/runtime/client_support.h"', ""]
    body, exports = [], []
    for call in calls:
        if not call.internal:
            body += _enter(call, spec) + [""]
            exports += _exports(call)
    return lines + in_namespace(body) + [""] + exports


def emit(spec, out):
    umbrella = ["// All entries. Prefer the header of one domain: it changes less often.", "#pragma once", ""]
    for domain, calls in spec.domains.items():
        out.write(f"client/{domain}.h", spec_file(domain), _header(domain, calls, spec))
        out.write(f"client/{domain}.cc", spec_file(domain), _source(domain, calls, spec))
        umbrella.append(f'#include "generated/client/{domain}.h"')
    out.write("client_custom.h", ALL, umbrella)
