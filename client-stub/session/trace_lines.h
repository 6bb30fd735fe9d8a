// How a trace writes what it has: numbers, names and lines of Google's "Trace Event Format" (trace.h). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// Microseconds, as the format counts.
std::string TraceUs(uint64_t ns);

// `name` as a JSON string may contain it, in UTF-8; other characters become '_'.
std::string TraceText(std::string_view name);

// A kernel's name: demangled if it is a C++ name, and cut to kTraceKernelMax characters.
std::string TraceKernel(const std::string& mangled);
inline constexpr size_t kTraceKernelMax = 256;

// Lines without the comma before them.
std::string TraceProcessLine(size_t process, std::string_view name);
std::string TraceThreadLine(size_t process, uint32_t thread, std::string_view name);

}  // namespace tessera
