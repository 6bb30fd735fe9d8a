// What the files of Relay share; for no other file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "protocol/base/log.h"
#include "protocol/base/status.h"
#include "protocol/channel/channel.h"
#include "protocol/link/link.h"

namespace tessera {

// Targets of kAck besides the rings. Their positions are transfer numbers and message counts.
inline constexpr uint32_t kAckOfTransfers = 3;
inline constexpr uint32_t kAckOfControls = 4;

// So many arrived messages of the socket are worth a frame that tells of them.
inline constexpr uint64_t kControlsAckStep = 16;

inline Status RelayViolation(const std::string& what) { return Status(StatusCode::kProtocolViolation, what); }

// Sends a message of a channel's socket to the other host. `number` is 1, 2, 3 ... in a session, and 0 in its handshake.
inline Status SendControl(Link& link, std::span<const std::byte> message, uint64_t number = 0) {
  return link.Send({FrameKind::kControl, 0, message.size(), 0, number}, message);
}

// Tells the other host why there is no session, and returns `why`. A failure to send it does not matter.
inline Status RefuseOver(Link& link, const Status& why) {
  Encoder encoder(kControlMessageBytesMax);
  ServerRefusal{why.code(), why.message()}.Encode(encoder);
  const Status sent = SendControl(link, encoder.bytes());
  if (!sent.ok()) LogDebug("a refusal could not be sent: {}", sent.message());
  return why;
}

// Where the records of a ring of transfers lie. All have one size, which divides no power of two. So a record's number gives its
// place, and the end of each lap is a pad.
struct TransferPlaces {
  uint64_t ring_bytes;

  uint64_t per_lap() const { return ring_bytes / sizeof(TransferRecord); }
  uint64_t BeginOf(uint64_t number) const {
    return (number - 1) / per_lap() * ring_bytes + (number - 1) % per_lap() * sizeof(TransferRecord);
  }
  uint64_t EndOf(uint64_t number) const { return number == 0 ? 0 : BeginOf(number) + sizeof(TransferRecord); }
  // The number of the last record in a ring that is published up to `end`. The ring holds nothing but records only if EndOf()
  // that number is `end`.
  uint64_t LastBefore(uint64_t end) const { return end / ring_bytes * per_lap() + end % ring_bytes / sizeof(TransferRecord); }
  // So many arrived transfers are worth a frame that tells of them.
  uint64_t AckStep() const { return per_lap() / 8; }
};
static_assert(sizeof(TransferRecord) % 3 == 0);

}  // namespace tessera
