// What carries a channel between two hosts: frames, in order, both ways. Knows neither calls nor what the bytes mean.
//
//   Status sent = link.Send({FrameKind::kRing, kCommands, bytes.size(), position, visible}, bytes);
//   Result<FrameHeader> got = link.Receive([&](const FrameHeader& header) { return WhereItBelongs(header); });
//
// A link delivers every frame once, whole and in the order of Send, or fails: from then on both ends fail for good. It knows no
// deadline: to stop a thread that waits in it call Close().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "protocol/base/status.h"

namespace tessera {

// The numbers are part of the protocol.
enum class FrameKind : uint32_t {
  kNone = 0,
  kControl = 1,   // a message of a channel's socket (protocol/wire/handshake.h), without descriptors; `number`: of the message
  kRing = 2,      // bytes of ring `target` from `position` on; afterwards the ring may be read up to `number`
  kAck = 3,       // `target` has arrived (a ring: was read) up to `position`, and need not be kept any longer
  kTransfer = 4,  // bytes of segment `target` from `position` on; `number`: of the transfer, which is whole now
  kResume = 5,    // resume_messages.h; before the welcome, or the first frame of a link that takes the place of another
  kTransferPart = 6,  // as kTransfer, and more of it follows
  kProbe = 7,         // nothing: tells an idle link from a dead one
  kJoin = 8,          // the first frame of a connection (joining_links.h); users of a link never see it
};

struct FrameHeader {
  FrameKind kind = FrameKind::kNone;
  uint32_t target = 0;
  uint64_t bytes = 0;  // of the payload
  uint64_t position = 0;
  uint64_t number = 0;
};
static_assert(sizeof(FrameHeader) == 32);

// Payload of one frame. Large enough that a frame's own cost does not show, small enough that a short record waits little
// behind a long transfer.
inline constexpr uint64_t kFrameBytesMax = uint64_t{1} << 20;

class Link {
 public:
  // Says where the payload of a frame goes: exactly `header.bytes` bytes, or a failure, which Receive() returns. The thread in
  // Receive() calls it once for each frame, also for an empty one. The header comes from another host: check every field.
  using Place = std::function<Result<std::span<std::byte>>(const FrameHeader& header)>;

  virtual ~Link() = default;

  // Sends a frame of at most kFrameBytesMax; `payload` may be reused at return. Waits while the link has no room.
  // kUnavailable once the link is closed or lost. One thread at a time.
  virtual Status Send(const FrameHeader& header, std::span<const std::byte> payload) = 0;
  // As Send(), but a small frame may wait here for those that follow, to go out together: until a Send(), or Flush(). The
  // sending thread.
  virtual Status SendSoon(const FrameHeader& header, std::span<const std::byte> payload) { return Send(header, payload); }
  virtual Status Flush() { return Status::Ok(); }
  // Waits for the next frame and fills in its payload. kUnavailable when the link is closed or lost and everything that
  // was sent before has been received; kProtocolViolation for what is no frame. One thread at a time.
  virtual Result<FrameHeader> Receive(const Place& place) = 0;
  // Ends both directions. What was sent still arrives. Any thread, any number of times.
  virtual void Close() = 0;
  // As Close(), for a link that is of no use any more: what is on its way may be lost.
  virtual void Drop() { Close(); }

  // Names memory that will hold many payloads, so that the link can register it with its device once. Only speed depends on it.
  // The memory stays mapped until Forget() has returned, and until no Send() or Receive() uses it. Any thread.
  virtual void Register(std::span<std::byte> memory) {}
  virtual void Forget(std::span<std::byte> memory) {}
};

}  // namespace tessera
