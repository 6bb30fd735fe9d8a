#include "protocol/base/bytes_text.h"

#include <fmt/core.h>

#include <charconv>

namespace tessera {
namespace {

struct Unit {
  std::string_view name;
  unsigned shift;
};
constexpr Unit kUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};

}  // namespace

bool ParseBytes(std::string_view text, uint64_t* bytes) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  unsigned shift = 0;
  for (const Unit& unit : kUnits) {
    if (text == unit.name) shift = unit.shift;
  }
  if ((shift == 0 && !text.empty()) || number > UINT64_MAX >> shift) return false;
  *bytes = number << shift;
  return true;
}

std::string BytesText(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    const uint64_t hundredths = ((bytes >> unit.shift) * 100) + ((bytes & ((uint64_t{1} << unit.shift) - 1)) * 100 >> unit.shift);
    const bool is_exact = (bytes & ((uint64_t{1} << unit.shift) - 1)) * 100 % (uint64_t{1} << unit.shift) == 0;
    if (bytes >> unit.shift == 0 || !is_exact) continue;
    if (hundredths % 100 == 0) return fmt::format("{} {}", hundredths / 100, unit.name);
    return fmt::format("{:.2f} {}", static_cast<double>(hundredths) / 100, unit.name);
  }
  return fmt::format("{} bytes", bytes);
}

}  // namespace tessera
