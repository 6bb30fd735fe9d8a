// Device printf's formatting, which is that of the C library minus %n. Source: CUDA C++ Programming Guide, "Formatted Output".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::emulator {

class PrintArguments {
 public:
  virtual ~PrintArguments() = default;
  // The next argument of 4 or 8 bytes; false ends the formatting (the launch has faulted).
  virtual bool Next(uint32_t size_bytes, uint64_t* value) = 0;
  virtual bool String(uint64_t address, std::string* text) = 0;
};

// Appends to `text`; `count` gets the number of arguments used, which is what device printf returns. Conversions that do
// not exist are copied as they are.
bool FormatPrintf(std::string_view format, PrintArguments& arguments, std::string* text, int* count);

}  // namespace tessera::emulator
