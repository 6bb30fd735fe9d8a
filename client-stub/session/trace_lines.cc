#include "client-stub/session/trace_lines.h"

#include <cxxabi.h>
#include <fmt/core.h>

#include <cstdlib>
#include <memory>

namespace tessera {
namespace {

std::string NameLine(const char* what, size_t process, uint32_t thread, std::string_view name) {
  return fmt::format("{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}", what, process, thread,
                     TraceText(name));
}

}  // namespace

std::string TraceUs(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string TraceText(std::string_view name) {
  std::string text(name);
  for (char& letter : text) {
    if (letter == '"' || letter == '\\' || letter < ' ' || letter > '~') letter = '_';
  }
  return text;
}

std::string TraceKernel(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                          std::free);
  // Without the underscores in front any word of one letter would be a type's name.
  const bool is_function = mangled.starts_with("_Z") && plain != nullptr;
  return TraceText(std::string_view(is_function ? plain.get() : mangled.c_str()).substr(0, kTraceKernelMax));
}

std::string TraceProcessLine(size_t process, std::string_view name) { return NameLine("process_name", process, 0, name); }

std::string TraceThreadLine(size_t process, uint32_t thread, std::string_view name) {
  return NameLine("thread_name", process, thread, name);
}

}  // namespace tessera
