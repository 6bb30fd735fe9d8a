"""exports.map, client/proc_address_table.{h,cc} and client/graphics.cc: what the stub's dynamic symbol table and cuGetProcAddress
offer; messages/handle_errors.h: what unknown handles are answered with."""

from output import ALL, block, in_namespace, indent


def _export_map(spec):
    symbols = sorted(symbol for entry in (*spec.exports, *spec.graphics) for symbol in entry.symbols)
    return ["{", "  global:", *indent([f"{symbol};" for symbol in symbols], 2), "  local:", "    *;", "};"]


def _rows(spec):
    """One row per export that is no per-thread form, grouped by base name, oldest version first."""
    rows = []
    known = [*spec.exports, *(name for name in spec.graphics if name.since)]
    for entry in sorted(known, key=lambda c: (c.base_name, c.since)):
        symbol, *_ = entry.symbols
        per_thread = f"AsPointer(&::{symbol}{entry.per_thread})" if entry.per_thread else "nullptr"
        since = entry.per_thread_since if entry.per_thread else 0
        rows.append(f'{{"{entry.base_name}", {entry.since}, AsPointer(&::{symbol}), {since}, {per_thread}}},')
    return rows


def _emit_handle_errors(spec, out):
    """Kinds with the same error share a `return`; one that types.toml does not know is refused as most are."""
    by_error = {}
    for kind in spec.kinds.values():
        by_error.setdefault(kind.error, []).append(kind.cpp)
    cases = []
    for error, kinds in sorted(by_error.items()):
        cases += [f"case {kind}:" for kind in kinds[:-1]]
        cases.append(f"case {kinds[-1]}: return static_cast<CUresult>({error});")
    out.write("messages/handle_errors.h", "protocol/spec/types.toml", [
        "// What CUDA answers to a null or unknown handle of a kind.", "#pragma once", "", "#include <cuda.h>", "",
        '#include "protocol/wire/handle.h"', "",
        *in_namespace(block("constexpr CUresult HandleError(HandleKind kind)", [
            *block("switch (kind)", [*cases, "default: return CUDA_ERROR_INVALID_HANDLE;"])]))])


def _emit_graphics(spec, out):
    """An export for each name, whatever its parameters are: the caller passes them in registers that nobody reads."""
    reason = "graphics resources belong to a graphics API in this process, which the server's GPU does not know"
    symbols = [symbol for name in spec.graphics for symbol in name.symbols]
    # Numbers beyond those of records: these never travel.
    exports = [f"TESSERA_GRAPHICS({symbol}, {0xffff0000 + number:#x})" for number, symbol in enumerate(symbols)]
    out.write("client/graphics.cc", ALL, [
        "", "#include <cuda.h>", "", '#include "client-stub/call/call.h"', '#include "protocol/runtime/client_support.h"', "",
        "#define TESSERA_GRAPHICS(name, id) \\",
        "  TESSERA_EXPORT CUresult name() { \\",
        "    using tessera::CallInfo; \\",
        "    static constexpr CallInfo info{#name, id, CallInfo::Mode::kUnsupported, CallInfo::Context::kNone, \\",
        f'                                   CallInfo::Capture::kLegal, false, "{reason}"}}; \\',
        "    TESSERA_GUARD(Unsupported(info)) \\",
        "  }", "", *exports])


def emit(spec, out):
    _emit_handle_errors(spec, out)
    if spec.graphics:
        _emit_graphics(spec, out)
    out.write("exports.map", ALL, _export_map(spec), comment="#")
    out.write("client/proc_address_table.h", ALL, [
        "// Every function that cuGetProcAddress knows, in each version (cudaTypedefs.h). Constant; any thread.",
        "#pragma once", "", "#include <span>", "", *in_namespace([
            "struct ProcAddress {",
            *indent(["const char* name;      // without version suffix; rows are sorted by name, then by `since`",
                     "int since;             // CUDA version that introduced this variant, as 12000",
                     "void* function;        // the stream 0 of this form is the legacy stream",
                     "int per_thread_since;  // 0 where there is no per-thread form",
                     "void* per_thread;      // the form whose stream 0 is the calling thread's own; may be null"]),
            "};", "", "std::span<const ProcAddress> ProcAddresses();"])])
    body = [
        "namespace {", "",
        *block("template <typename Function>\nvoid* AsPointer(Function* function)",
               ["return reinterpret_cast<void*>(function);"]), "", "}  // namespace", "",
        *block("std::span<const ProcAddress> ProcAddresses()", [
            "static const ProcAddress rows[] = {", *indent(_rows(spec)), "};", "return rows;"])]
    out.write("client/proc_address_table.cc", ALL, [
        "", '#include "generated/client/proc_address_table.h"', "", "#include <cuda.h>", "#include <cudaProfiler.h>", "",
        *(f'extern "C" CUresult {symbol}();' for name in spec.graphics for symbol in name.symbols),
        *([""] if spec.graphics else []), *in_namespace(body)])
