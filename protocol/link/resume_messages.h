// What two relays tell each other so that a session can go on after its link was lost: payloads of kResume frames. Plain
// structs; Decode() copies everything out of the bytes it reads, which come from another host.
//
//   client's host                            server's host
//                                       <-   ResumeOffer, ahead of the welcome
//   (the link is lost, another is made)
//   ResumeState                         ->
//                                       <-   ResumeState, or a ServerRefusal in a control frame and the end
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Whoever shows the token may take the session over. Random; the server's host mints it for one session; never logged.
struct ResumeToken {
  std::array<std::byte, 16> bytes{};

  // A new token (getrandom(2)).
  static ResumeToken Mint();
  // Takes the same time wherever the tokens differ.
  bool Equals(const ResumeToken& other) const;
};

struct ResumeOffer {
  // Without a link a session holds its GPU memory for so long at most.
  static constexpr uint32_t kGraceMsMax = 3'600'000;

  ResumeToken token;
  uint32_t grace_ms = 0;  // how long both ends keep the session without a link

  std::vector<std::byte> Encode() const;
  static Result<ResumeOffer> Decode(std::span<const std::byte> payload);
};

// What one end has received through a lost link, once nothing more can arrive.
struct ResumeState {
  static constexpr size_t kRingsMax = 3;

  // A ring to which this end writes what arrives. released <= visible <= received.
  struct Ring {
    uint32_t id = 0;        // TransferRing
    uint64_t received = 0;  // bytes that are here
    uint64_t visible = 0;   // of them: up to the end of a record, as the sender said so far
    uint64_t released = 0;  // of them: read, as this end has said or says hereby
  };

  ResumeToken token;
  uint64_t controls = 0;   // messages of the socket that have arrived
  uint64_t transfers = 0;  // the number of the last transfer that has arrived whole; so have all before it
  std::vector<Ring> rings;

  std::vector<std::byte> Encode() const;
  static Result<ResumeState> Decode(std::span<const std::byte> payload);
};

}  // namespace tessera
