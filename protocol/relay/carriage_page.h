// What a relay has to remember of its session, in memory that outlives its process (carriage.h). One process at a time writes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protocol/channel/channel.h"
#include "protocol/link/resume_messages.h"

namespace tessera {

// What is agreed at the start of a session; it does not change.
struct CarriageTerms {
  static constexpr size_t kPeerBytesMax = 256;

  Channel::Side side = Channel::Side::kServer;
  uint32_t grace_ms = 0;
  ResumeToken token;
  ChannelSizes sizes;
  std::array<char, kPeerBytesMax> peer{};  // as for ReturningLinks::Admit(); ends with a zero
};

// All zeros is a valid empty page. KeeperMessage::kVersion changes with this struct.
struct CarriagePage {
  static constexpr uint32_t kMagic = 0x52524354;  // "TCRR"
  // The largest message of the channel's socket that is passed on: SegmentOffer and SegmentClose have fixed sizes.
  static constexpr size_t kMessageBytesMax = 60;
  // More than a relay keeps (kControlsKeptMax) and a socket holds besides.
  static constexpr size_t kMessagesMax = 4096;
  static constexpr size_t kGoodbyeBytesMax = kSentenceBytesMax + 64;

  struct Message {
    uint32_t bytes;
    std::array<std::byte, kMessageBytesMax> data;
  };
  struct Segment {
    static constexpr uint32_t kClosedHere = 1;   // by the peer on this host
    static constexpr uint32_t kClosedThere = 2;  // by the process on the other

    std::atomic<uint32_t> id;  // 0: the entry is free. Written last when it is taken, first when it is freed
    std::atomic<uint32_t> closed;
    std::atomic<uint64_t> size_bytes;
  };

  uint32_t magic;
  std::atomic<uint32_t> segments_used;  // entries of `segments` beyond these were never used
  CarriageTerms terms;

  std::atomic<uint32_t> heard;            // whether anything has come from the other host
  std::atomic<uint32_t> end_heard;        // whether its Goodbye has come and the peer on this host was told
  std::atomic<uint32_t> over;             // whether the relay has ended in order
  std::atomic<uint32_t> goodbye_bytes;    // of `goodbye`, which the peer on this host says; 0: not yet
  std::atomic<uint64_t> outage_began_ns;  // MonotonicNs; 0: there is a link
  std::atomic<uint64_t> transfers_received;
  std::atomic<uint64_t> controls_received;
  std::atomic<uint64_t> offer_arriving;     // id of the segment whose offer is being taken from the link; 0: none
  std::atomic<uint64_t> messages_recorded;  // sent by the peer on this host: the last is at (recorded - 1) % kMessagesMax
  std::atomic<uint64_t> messages_acked;     // how many the other host has acknowledged
  std::array<std::atomic<uint32_t>, 2> highest_offered;  // segment ids, even and odd
  std::array<std::byte, kGoodbyeBytesMax> goodbye;
  std::array<Message, kMessagesMax> messages;  // number n at (n - 1) % kMessagesMax
  std::array<Segment, SegmentTable::kSegmentsMax> segments;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace tessera
