"""mock/recording_table.{h,cc}: a DriverTable whose functions only record that they were called (for tests)."""

from output import ALL, in_namespace, indent


def emit(spec, out):
    symbols = [symbol for call in spec.exports for symbol in call.symbols]
    out.write("mock/recording_table.h", ALL, [
        "// A DriverTable whose functions only report that they were called. For tests; used by RecordingDriver.",
        "#pragma once", "", "#include <span>", "", '#include "generated/driver_table.h"', "",
        *in_namespace([
            "// Every function of the table returns what `called` returns for its position in RecordingNames().",
            "DriverTable MakeRecordingTable(CUresult (*called)(int position));",
            "std::span<const char* const> RecordingNames();"])])
    out.write("mock/recording_table.cc", ALL, [
        "", '#include "generated/mock/recording_table.h"', "",
        *in_namespace([
            "namespace {", "", "CUresult (*called_hook)(int) = nullptr;", "",
            "template <int kPosition, typename... Args>", "CUresult CUDAAPI Recorded(Args...) {",
            "  return called_hook(kPosition);", "}", "",
            "template <int kPosition, typename... Args>", "void Fill(CUresult(CUDAAPI*& entry)(Args...)) {",
            "  entry = &Recorded<kPosition, Args...>;", "}", "",
            "constexpr const char* kNames[] = {", *indent([f'"{s}",' for s in symbols]), "};", "", "}  // namespace", "",
            "DriverTable MakeRecordingTable(CUresult (*called)(int position)) {", "  called_hook = called;",
            "  DriverTable table;",
            *indent([f"Fill<{i}>(table.{s});" for i, s in enumerate(symbols)]), "  return table;", "}", "",
            "std::span<const char* const> RecordingNames() { return kNames; }"])])
