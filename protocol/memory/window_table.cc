#include "protocol/memory/window_table.h"

#include "protocol/base/check.h"

namespace tessera {
namespace {

Range Part(const Range& whole, int index) {
  const uint64_t bytes = whole.bytes / kSessionsPerWindow;
  return Range{whole.base + bytes * static_cast<uint64_t>(index), bytes};
}

}  // namespace

WindowPair SessionWindows(int row, int session_index) {
  CHECK(row >= 0 && row < kWindowRows && session_index >= 0 && session_index < kSessionsPerWindow);
  return WindowPair{Part(kWindowTable[row].device, session_index), Part(kWindowTable[row].host, session_index)};
}

}  // namespace tessera
