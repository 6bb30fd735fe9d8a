// How much each worker uses each GPU, as the monitor tells the daemon for the audit: the answer to a MonitorRequest with
// `figures`, one datagram. Plain structs, used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/encoder.h"

namespace tessera {

struct ProcessFigures {
  static constexpr size_t kListMax = 4096;  // Encode() leaves out those beyond
  static constexpr size_t kBytesMax = 64 + kListMax * 24;
  static constexpr uint32_t kUnknownPercent = UINT32_MAX;
  static constexpr uint64_t kUnknownBytes = UINT64_MAX;
  struct One {
    uint64_t session = 0;
    uint32_t device = 0;                  // its number in the server's snapshot
    uint32_t sm_percent = 0;              // since the question before; kUnknownPercent: it did nothing, or is not known
    uint64_t used_bytes = kUnknownBytes;  // of the device's memory, by the whole process
  };

  bool told = false;      // how busy processes were, of every device, though perhaps of no process
  std::vector<One> list;  // a worker that is not here is not known, or has not used the device

  // Null: it is not here.
  const One* Find(uint64_t session, uint32_t device) const;

  void Encode(Encoder& out) const;
  static Result<ProcessFigures> Decode(std::span<const std::byte> message);
};

}  // namespace tessera
