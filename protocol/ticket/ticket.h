// What the placer promises a job on one server: which vGPUs, for whom, until when. A job has one ticket for each of its servers.
//
// Only bytes whose signature was checked become a Ticket (ticket_keys.h). Plain structs; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {

// The numbers are part of the format.
enum class TicketMemory : uint8_t { kHard = 0, kSwap = 1 };
enum class TicketIsolation : uint8_t { kStrict = 0, kPacked = 1 };
enum class TicketPriority : uint8_t { kProtected = 0, kNormal = 1, kBestEffort = 2 };

// A part of one GPU. Shares are parts per million of the GPU's time.
struct TicketVgpu {
  static constexpr uint32_t kWhole = 1'000'000;

  std::array<std::byte, 16> gpu{};  // its UUID
  uint32_t request = 0;             // at most `limit`
  uint32_t limit = kWhole;          // above 0
  uint32_t tile_sms = 0;            // SMs; 0: all
  uint64_t memory_bytes = 0;        // 0: no limit
  TicketMemory memory = TicketMemory::kHard;
  TicketIsolation isolation = TicketIsolation::kStrict;
  TicketPriority priority = TicketPriority::kNormal;
  uint64_t bandwidth = 0;  // bytes per second of the server's network; 0: none is promised

  friend bool operator==(const TicketVgpu&, const TicketVgpu&) = default;
};

struct Ticket {
  using Grant = std::array<std::byte, 16>;

  static constexpr size_t kNameBytesMax = 63;
  static constexpr size_t kVgpusMax = 8;
  static constexpr uint32_t kPartsMax = 8;  // of a grant: servers
  static constexpr uint32_t kProcessesMax = 1'024;

  std::string cluster{};            // 1 to kNameBytesMax characters that can be printed
  Grant grant{};                    // its id, never used again
  uint32_t part = 0;                // number of this part of the grant, from 0
  std::string server{};             // the server's host id, as long as `cluster` at most
  std::string holder{};             // protocol/wire/holder.h; never empty
  uint64_t epoch = 0;               // of the placer: larger with each of its starts
  uint32_t renewal = 0;             // how often the ticket was renewed
  int64_t issued_ms = 0;            // of the placer's clock, since 1970
  int64_t expires_ms = 0;           // later than that
  uint32_t processes = 1;           // of the job; their contexts have room on each GPU; 1 to kProcessesMax
  std::vector<TicketVgpu> vgpus{};  // 1 to kVgpusMax, each of another GPU, in the job's order

  void Encode(Encoder& out) const;
  // kProtocolViolation: the bytes are no ticket, or a field is out of its bounds.
  static Result<Ticket> Decode(std::span<const std::byte> bytes);
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

// 32 digits in small letters.
std::string GrantText(const Ticket::Grant& grant);
// nullopt: it has another form.
std::optional<Ticket::Grant> ParseGrant(std::string_view text);

}  // namespace tessera
