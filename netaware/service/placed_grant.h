// A grant as the placer reports and stores it: the ask, and the GPUs of each server. Plain values.
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
  std::vector<std::byte> ticket{};  // signed; not stored

  friend bool operator==(const PlacedPart&, const PlacedPart&) = default;
};
struct PlacedGrant {
  GrantAsk ask{};
  std::string request_id{};
  std::vector<PlacedPart> parts{};
  uint32_t renewal = 0;   // of the tickets
  int64_t issued_ms = 0;  // of the tickets; 0 in a grant read from the store

  friend bool operator==(const PlacedGrant&, const PlacedGrant&) = default;
};

inline constexpr std::string_view kPlacedKeys = "grants/";

// "grants/" and 32 digits.
std::string KeyOfPlaced(const GrantId& grant);
// The stored form, without tickets.
std::string StoredPlaced(const PlacedGrant& grant);
// kProtocolViolation: the value is damaged.
Result<PlacedGrant> ReadPlaced(std::string_view value);

}  // namespace tessera
