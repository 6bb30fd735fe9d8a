// Frames of a link over a stream of bytes: the 32 bytes of a FrameHeader (little-endian), then its payload.
#pragma once

#include <bit>
#include <span>
#include <string>

#include "protocol/base/check.h"
#include "protocol/link/link.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "a FrameHeader travels as it lies in memory");

// Link::Receive() for a link whose `fill(std::span<std::byte>)` waits for the next bytes of the stream and fills all of the
// span.
template <typename Fill>
Result<FrameHeader> ReceiveFrame(const Fill& fill, const Link::Place& place) {
  FrameHeader header;
  RETURN_IF_ERROR(fill(std::as_writable_bytes(std::span(&header, 1))));
  if (header.bytes > kFrameBytesMax) {
    return Status(StatusCode::kProtocolViolation, "the link brought a frame of " + std::to_string(header.bytes) + " bytes");
  }
  Result<std::span<std::byte>> to = place(header);
  if (!to.ok()) return to.status();
  CHECK(to->size() == header.bytes);
  RETURN_IF_ERROR(fill(*to));
  return header;
}

}  // namespace tessera
