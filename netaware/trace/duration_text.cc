#include "netaware/trace/duration_text.h"

#include <fmt/core.h>

namespace tessera {
namespace {

constexpr double kNsPerUs = 1e3, kNsPerMs = 1e6, kNsPerS = 1e9;

}  // namespace

std::string DurationText(double ns) {
  if (ns >= kNsPerS) return fmt::format("{:.3f} s", ns / kNsPerS);
  if (ns >= kNsPerMs) return fmt::format("{:.1f} ms", ns / kNsPerMs);
  return fmt::format("{:.1f} us", ns / kNsPerUs);
}

}  // namespace tessera
