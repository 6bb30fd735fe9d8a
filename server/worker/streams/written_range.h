// Bytes of a host segment or of staging that GPU work writes, and that are published before anybody hears of it.
#pragma once

#include <cstdint>

namespace tessera {

struct WrittenRange {
  uint32_t segment = 0;  // 0: none
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

}  // namespace tessera
