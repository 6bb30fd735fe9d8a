#include "protocol/link/tls/tls_messages.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

constexpr uint8_t kTicket = 4;
constexpr uint8_t kKeyUpdate = 24;
// Two times, a nonce, a ticket and extensions, each as long as it may be (4.6.1).
constexpr size_t kTicketBytesMax = 4 + 4 + (1 + 0xff) + (2 + 0xffff) + (2 + 0xfffe);

Status NotHere() { return Status(StatusCode::kProtocolViolation, "the link brought a part of a handshake where none belongs"); }

}  // namespace

Result<TlsMessages::Heard> TlsMessages::Take(std::span<const std::byte> content) {
  if (content.empty()) return NotHere();  // section 5.1
  while (!content.empty()) {
    const size_t looked_at = std::min(content.size(), begin_.size() - std::min(have_, begin_.size()));
    if (looked_at != 0) std::memcpy(begin_.data() + have_, content.data(), looked_at);
    if (have_ + content.size() < kHeaderBytes) {
      have_ += content.size();
      return Heard::kNothing;
    }
    const uint8_t kind = begin_[0];
    const size_t body_bytes = size_t{begin_[1]} << 16 | size_t{begin_[2]} << 8 | begin_[3];
    const bool update = kind == kKeyUpdate && body_bytes == 1;
    const bool ticket = kind == kTicket && from_server_ && body_bytes <= kTicketBytesMax;
    if (!update && !ticket) return NotHere();
    const size_t taken = std::min(content.size(), kHeaderBytes + body_bytes - have_);
    have_ += taken;
    content = content.subspan(taken);
    if (have_ < kHeaderBytes + body_bytes) return Heard::kNothing;
    have_ = 0;
    if (!update) continue;
    const uint8_t wanted = begin_[kHeaderBytes];
    // The record behind it has other keys, so that it is the last of its record.
    if (wanted > 1 || !content.empty()) return NotHere();
    return wanted == 1 ? Heard::kNewKeysWanted : Heard::kNewKeys;
  }
  return Heard::kNothing;
}

}  // namespace tessera
