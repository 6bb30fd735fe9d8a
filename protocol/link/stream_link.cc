#include "protocol/link/stream_link.h"

#include <bit>
#include <string>

#include "protocol/base/check.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "a FrameHeader travels as it lies in memory");

Status StreamLink::Send(const FrameHeader& header, std::span<const std::byte> payload) {
  CHECK(header.bytes == payload.size() && payload.size() <= kFrameBytesMax);
  Gather(std::as_bytes(std::span(&header, 1)));
  const Status sent = Write(gathered_, payload);
  gathered_.clear();
  return sent;
}

Status StreamLink::SendSoon(const FrameHeader& header, std::span<const std::byte> payload) {
  if (payload.size() > kSmallBytesMax || gathered_.size() > kGatheredBytesMax) return Send(header, payload);
  CHECK(header.bytes == payload.size());
  Gather(std::as_bytes(std::span(&header, 1)));
  Gather(payload);
  return Status::Ok();
}

Status StreamLink::Flush() {
  if (gathered_.empty()) return Status::Ok();
  const Status sent = Write(gathered_, {});
  gathered_.clear();
  return sent;
}

Result<FrameHeader> StreamLink::Receive(const Place& place) {
  FrameHeader header;
  RETURN_IF_ERROR(Fill(std::as_writable_bytes(std::span(&header, 1))));
  if (header.bytes > kFrameBytesMax) {
    return Status(StatusCode::kProtocolViolation, "the link brought a frame of " + std::to_string(header.bytes) + " bytes");
  }
  Result<std::span<std::byte>> to = place(header);
  if (!to.ok()) return to.status();
  CHECK(to->size() == header.bytes);
  RETURN_IF_ERROR(Fill(*to));
  return header;
}

}  // namespace tessera
