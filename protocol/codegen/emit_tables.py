"""exports.map and client/proc_address_table.{h,cc}: what the stub's dynamic symbol table and cuGetProcAddress offer."""

from output import ALL, block, in_namespace, indent


def _export_map(spec):
    symbols = sorted(symbol for call in spec.exports for symbol in call.symbols)
    return ["{", "  global:", *indent([f"{symbol};" for symbol in symbols], 2), "  local:", "    *;", "};"]


def _rows(spec):
    """One row per export that is no per-thread form, grouped by base name, oldest version first."""
    rows = []
    for call in sorted(spec.exports, key=lambda c: (c.base_name, c.since)):
        per_thread = f"AsPointer(&::{call.name}{call.per_thread})" if call.per_thread else "nullptr"
        since = call.per_thread_since if call.per_thread else 0
        rows.append(f'{{"{call.base_name}", {call.since}, AsPointer(&::{call.name}), {since}, {per_thread}}},')
    return rows


def emit(spec, out):
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
        *in_namespace(body)])
