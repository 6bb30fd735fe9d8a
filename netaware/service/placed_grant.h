// A grant as the placer tells of it and keeps it: what was asked, and what of which servers that is. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "netaware/grants/grant.h"
#include "protocol/base/status.h"

namespace tessera {

struct PlacedGpu {
  std::string uuid{};
  std::string model{};
  uint32_t number = 0;        // in the server's list when it was placed
  uint64_t memory_bytes = 0;  // without contexts

  friend bool operator==(const PlacedGpu&, const PlacedGpu&) = default;
};
struct PlacedPart {
  std::string server{};
  std::vector<PlacedGpu> gpus{};
  std::vector<std::byte> ticket{};  // signed; not kept

  friend bool operator==(const PlacedPart&, const PlacedPart&) = default;
};
struct PlacedGrant {
  GrantAsk ask{};
  std::string request_id{};
  std::vector<PlacedPart> parts{};
  uint32_t renewal = 0;   // of the tickets
  int64_t issued_ms = 0;  // likewise; of a grant that was kept: 0

  friend bool operator==(const PlacedGrant&, const PlacedGrant&) = default;
};

inline constexpr std::string_view kPlacedKeys = "grants/";

// "grants/" and 32 digits.
std::string KeyOfPlaced(const GrantId& grant);
// The form in which it is kept, without its tickets.
std::string StoredPlaced(const PlacedGrant& grant);
// kProtocolViolation: that is none.
Result<PlacedGrant> ReadPlaced(std::string_view value);

}  // namespace tessera
