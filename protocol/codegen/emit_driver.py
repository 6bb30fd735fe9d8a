"""driver_table.h, driver_names.{h,cc}: what the worker calls, and where the loader finds it."""

from output import ALL, in_namespace, indent


def emit(spec, out):
    symbols = [symbol for call in spec.exports for symbol in call.symbols]
    out.write("driver_table.h", ALL, [
        "// The driver's functions as the worker calls them: null where the loaded driver lacks one. Filled once by",
        "// server/driver/loader (or a test), constant afterwards; any thread may read it.",
        "#pragma once", "", "#include <cuda.h>", "#include <cudaProfiler.h>", "",
        *in_namespace(["struct DriverTable {", *indent([f"decltype(&::{s}) {s} = nullptr;" for s in symbols]), "};"])])
    out.write("driver_names.h", ALL, [
        "#pragma once", "", "#include <cstddef>", "#include <span>", "",
        *in_namespace(["// The exported name that belongs in the DriverTable's pointer at this byte offset.",
                       "struct DriverName {", *indent(["const char* name;", "size_t offset;"]), "};",
                       "std::span<const DriverName> DriverNames();"])])
    out.write("driver_names.cc", ALL, [
        "", '#include "generated/driver_names.h"', "", '#include "generated/driver_table.h"', "",
        *in_namespace(["static constexpr DriverName kNames[] = {",
                       *indent([f'{{"{s}", offsetof(DriverTable, {s})}},' for s in symbols]), "};", "",
                       "std::span<const DriverName> DriverNames() { return kNames; }"])])
