// What the files of Relay share; for them alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "protocol/base/log.h"
#include "protocol/base/status.h"
#include "protocol/channel/channel.h"
#include "protocol/link/link.h"

namespace tessera {

// Targets of kAck besides the rings: positions are numbers of transfers, counts of messages.
inline constexpr uint32_t kAckOfTransfers = 3;
inline constexpr uint32_t kAckOfControls = 4;

// Messages of the socket that are worth a frame which tells that they have arrived.
inline constexpr uint64_t kControlsAckStep = 16;

inline Status RelayViolation(const std::string& what) { return Status(StatusCode::kProtocolViolation, what); }

// Sends a message of a channel's socket to the other host. `number`: 1, 2, 3 ... in a session; 0 in its handshake.
inline Status SendControl(Link& link, std::span<const std::byte> message, uint64_t number = 0) {
  return link.Send({FrameKind::kControl, 0, message.size(), 0, number}, message);
}

// Tells the other host why there is no session. Failure to send it is of no interest.
inline Status RefuseOver(Link& link, const Status& why) {
  Encoder encoder(kControlMessageBytesMax);
  ServerRefusal{why.code(), why.message()}.Encode(encoder);
  const Status sent = SendControl(link, encoder.bytes());
  if (!sent.ok()) LogDebug("a refusal could not be sent: {}", sent.message());
  return why;
}

// Where the records of a ring of transfers lie. All have one size, which divides no power of two: so each place follows from
// its record's number, and the end of a lap is always a pad.
struct TransferPlaces {
  uint64_t ring_bytes;

  uint64_t per_lap() const { return ring_bytes / sizeof(TransferRecord); }
  uint64_t BeginOf(uint64_t number) const {
    return (number - 1) / per_lap() * ring_bytes + (number - 1) % per_lap() * sizeof(TransferRecord);
  }
  uint64_t EndOf(uint64_t number) const { return number == 0 ? 0 : BeginOf(number) + sizeof(TransferRecord); }
  // The last number that a ring published up to `end` holds. Only when EndOf() it is `end`, the ring holds nothing else.
  uint64_t LastBefore(uint64_t end) const { return end / ring_bytes * per_lap() + end % ring_bytes / sizeof(TransferRecord); }
  // Transfers that are worth a frame which tells that they have arrived.
  uint64_t AckStep() const { return per_lap() / 8; }
};
static_assert(sizeof(TransferRecord) % 3 == 0);

}  // namespace tessera
