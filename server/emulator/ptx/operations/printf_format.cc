#include "server/emulator/ptx/operations/printf_format.h"

#include <bit>
#include <cstdio>

namespace tessera::emulator {
namespace {

constexpr uint64_t kMaxWidth = 1024;

template <class T>
void Append(const std::string& spec, T value, std::string* text) {
  char buffer[2 * kMaxWidth + 512];
  const int n = std::snprintf(buffer, sizeof(buffer), spec.c_str(), value);
  if (n > 0) text->append(buffer, std::min<size_t>(static_cast<size_t>(n), sizeof(buffer) - 1));
}

}  // namespace

bool FormatPrintf(std::string_view format, PrintArguments& arguments, std::string* text, int* count) {
  *count = 0;
  size_t i = 0;
  while (i < format.size()) {
    if (format[i] != '%') {
      text->push_back(format[i++]);
      continue;
    }
    const size_t begin = i++;
    std::string spec = "%";
    while (i < format.size() && std::string_view("#0- +").find(format[i]) != std::string_view::npos && spec.size() < 16)
      spec.push_back(format[i++]);
    uint64_t value = 0;
    auto number = [&]() {
      if (i < format.size() && format[i] == '*') {
        ++i;
        ++*count;
        if (!arguments.Next(4, &value)) return false;
        auto n = static_cast<int32_t>(value);
        n = n > static_cast<int32_t>(kMaxWidth)    ? static_cast<int32_t>(kMaxWidth)
            : n < -static_cast<int32_t>(kMaxWidth) ? -static_cast<int32_t>(kMaxWidth)
                                                   : n;
        spec += std::to_string(n);
        return true;
      }
      uint64_t n = 0;
      bool any = false;
      while (i < format.size() && format[i] >= '0' && format[i] <= '9') {
        n = std::min<uint64_t>(n * 10 + static_cast<uint64_t>(format[i++] - '0'), kMaxWidth);
        any = true;
      }
      if (any) spec += std::to_string(n);
      return true;
    };
    if (!number()) return false;
    if (i < format.size() && format[i] == '.') {
      ++i;
      const size_t before = spec.size();
      spec.push_back('.');
      if (!number()) return false;
      if (spec[before + 1] == '-') spec.resize(before);  // a negative precision counts as absent
    }
    bool wide = false;
    int halves = 0;
    while (i < format.size() && std::string_view("hlLjzt").find(format[i]) != std::string_view::npos) {
      if (format[i] == 'h')
        ++halves;
      else
        wide = true;
      ++i;
    }
    const char type = i < format.size() ? format[i] : '\0';
    if (type != '\0') ++i;
    switch (type) {
      case '%': text->push_back('%'); continue;
      case 'd':
      case 'i':
        if (!arguments.Next(wide ? 8 : 4, &value)) return false;
        if (wide)
          Append(spec + "lld", static_cast<long long>(value), text);
        else
          Append(spec + (halves >= 2 ? "hh" : halves == 1 ? "h" : "") + "d", static_cast<int>(value), text);
        break;
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        if (!arguments.Next(wide ? 8 : 4, &value)) return false;
        if (wide)
          Append(spec + "ll" + type, static_cast<unsigned long long>(value), text);
        else
          Append(spec + (halves >= 2 ? "hh" : halves == 1 ? "h" : "") + type, static_cast<unsigned>(value), text);
        break;
      case 'c':
        if (!arguments.Next(4, &value)) return false;
        Append(spec + "c", static_cast<int>(value), text);
        break;
      case 'p':
        if (!arguments.Next(8, &value)) return false;
        Append(spec + "p", reinterpret_cast<void*>(value), text);
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        if (!arguments.Next(8, &value)) return false;
        Append(spec + type, std::bit_cast<double>(value), text);
        break;
      case 's': {
        if (!arguments.Next(8, &value)) return false;
        std::string string;
        if (!arguments.String(value, &string)) return false;
        if (spec == "%")
          *text += string;
        else
          Append(spec + "s", string.c_str(), text);
        break;
      }
      default: text->append(format.substr(begin, i - begin)); continue;
    }
    ++*count;
  }
  return true;
}

}  // namespace tessera::emulator
