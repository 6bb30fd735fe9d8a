// What a relay has to remember of its session, in memory that outlives its process (carriage.h). Written by one process at a
// time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protocol/channel/channel.h"
#include "protocol/link/resume_messages.h"

namespace tessera {

// What is agreed at the beginning, and does not change.
struct CarriageTerms {
  static constexpr size_t kPeerBytesMax = 256;

  Channel::Side side = Channel::Side::kServer;
  uint32_t grace_ms = 0;
  ResumeToken token;
  ChannelSizes sizes;
  std::array<char, kPeerBytesMax> peer{};  // as of ReturningLinks::Admit(); ends with a zero
};

// Zero is the valid empty state. KeeperMessage::kVersion changes with it.
struct CarriagePage {
  static constexpr uint32_t kMagic = 0x52524354;  // "TCRR"
  // A message of the channel's socket that is passed on: SegmentOffer and SegmentClose have fixed sizes.
  static constexpr size_t kMessageBytesMax = 60;
  // More than a relay keeps (kControlsKeptMax) and a socket holds on top.
  static constexpr size_t kMessagesMax = 4096;
  static constexpr size_t kGoodbyeBytesMax = kSentenceBytesMax + 64;

  struct Message {
    uint32_t bytes;
    std::array<std::byte, kMessageBytesMax> data;
  };
  struct Segment {
    static constexpr uint32_t kClosedHere = 1;   // by the peer on this host
    static constexpr uint32_t kClosedThere = 2;  // by that on the other

    std::atomic<uint32_t> id;  // 0: the entry is free; written last, and first when it becomes free
    std::atomic<uint32_t> closed;
    std::atomic<uint64_t> size_bytes;
  };

  uint32_t magic;
  std::atomic<uint32_t> segments_used;  // entries of `segments` behind these were never used
  CarriageTerms terms;

  std::atomic<uint32_t> heard;            // anything has come from the other host
  std::atomic<uint32_t> end_heard;        // its Goodbye, and the peer on this host was told
  std::atomic<uint32_t> over;             // the relay has ended in order
  std::atomic<uint32_t> goodbye_bytes;    // of `goodbye`, which the peer on this host has said; 0: not yet
  std::atomic<uint64_t> outage_began_ns;  // MonotonicNs; 0: there is a link
  std::atomic<uint64_t> transfers_received;
  std::atomic<uint64_t> controls_received;
  std::atomic<uint64_t> offer_arriving;     // id of the segment of which an offer is being taken from the link; 0: none
  std::atomic<uint64_t> messages_recorded;  // those that the peer on this host has sent: the last of them is at recorded - 1
  std::atomic<uint64_t> messages_acked;     // by the other host
  std::array<std::atomic<uint32_t>, 2> highest_offered;  // segment id, even and odd ones
  std::array<std::byte, kGoodbyeBytesMax> goodbye;
  std::array<Message, kMessagesMax> messages;  // number n at (n - 1) % kMessagesMax
  std::array<Segment, SegmentTable::kSegmentsMax> segments;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace tessera
