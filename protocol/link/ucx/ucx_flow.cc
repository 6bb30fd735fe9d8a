#include "protocol/link/ucx/ucx_flow.h"

#include <string>

#include "protocol/base/check.h"

namespace tessera {

Status UcxInbox::Add(uint64_t number, const Frame& frame) {
  const uint64_t bytes = frame.header.bytes;
  if (bytes > kFrameBytesMax) {
    return Status(StatusCode::kProtocolViolation, "the link brought a frame of " + std::to_string(bytes) + " bytes");
  }
  if (number < taken_ || number - taken_ >= kUcxWindowFrames || held_bytes_ + bytes > kUcxWindowBytes ||
      !frames_.emplace(number, frame).second) {
    return Status(StatusCode::kProtocolViolation, "the link brought a frame that was not to come yet, or twice");
  }
  ++arrived_;
  held_bytes_ += bytes;
  return Status::Ok();
}

UcxInbox::Frame UcxInbox::Take() {
  CHECK(HasNext());
  const Frame frame = frames_.begin()->second;
  frames_.erase(frames_.begin());
  held_bytes_ -= frame.header.bytes;
  ++taken_;
  taken_bytes_ += frame.header.bytes;
  return frame;
}

std::optional<UcxInbox::Frame> UcxInbox::Discard() {
  if (frames_.empty()) return std::nullopt;
  const Frame frame = frames_.begin()->second;
  frames_.erase(frames_.begin());
  return frame;
}

std::span<std::byte> UcxSendBuffer::Take(size_t bytes) {
  CHECK(bytes <= memory_.size() / 2);
  size_t begin = 0;
  if (!pieces_.empty()) {
    const size_t oldest = pieces_.front().begin;
    begin = pieces_.back().end;
    if (begin > oldest && begin + bytes > memory_.size()) begin = 0;
    // Never up to the oldest: full and empty must differ.
    if (begin <= oldest && begin + bytes >= oldest) return {};
  }
  pieces_.push_back({begin, begin + bytes, true});
  return memory_.subspan(begin, bytes);
}

void UcxSendBuffer::GiveBack(const std::byte* piece) {
  const size_t begin = static_cast<size_t>(piece - memory_.data());
  for (Piece& one : pieces_) {
    if (one.begin == begin && one.in_use) {
      one.in_use = false;
      break;
    }
  }
  while (!pieces_.empty() && !pieces_.front().in_use) pieces_.pop_front();
}

}  // namespace tessera
