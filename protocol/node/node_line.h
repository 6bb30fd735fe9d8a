// The socket between tesserad and its node (netaware/node): one message is one datagram of a SEQPACKET pair.
//
//   daemon                 node
//   TicketQuestion    ->
//                     <-   TicketAnswer
//
// A node that was started anew is asked again. Decode() copies everything out of the bytes it reads and bounds it;
// kProtocolViolation for what is no such message. Plain structs; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/encoder.h"

namespace tessera {

inline constexpr size_t kNodeMessageBytesMax = 8 * 1024;
inline constexpr size_t kNodeSentenceBytesMax = 1024;

// What may a client do that shows this ticket?
struct TicketQuestion {
  uint64_t id = 0;
  std::string holder{};             // of the client (protocol/wire/holder.h)
  std::vector<std::byte> ticket{};  // as the client showed it: kHelloTicketBytesMax of anything at most

  void Encode(Encoder& out) const;
  static Result<TicketQuestion> Decode(std::span<const std::byte> message);
};

struct TicketAnswer {
  uint64_t id = 0;                    // of its question
  StatusCode code = StatusCode::kOk;  // else: it may do nothing
  std::string sentence{};             // why not, cut after kNodeSentenceBytesMax
  std::string vgpus{};                // of kOk: "NAME" or "NAME+NAME", the vGPUs of its session, in their order

  void Encode(Encoder& out) const;
  static Result<TicketAnswer> Decode(std::span<const std::byte> message);
};

}  // namespace tessera
