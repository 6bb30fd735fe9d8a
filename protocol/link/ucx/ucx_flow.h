// The bookkeeping of a link over UCX, without UCX itself: frames that arrive in any order, and room for frames that are sent.
// Pure; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>

#include "protocol/base/status.h"
#include "protocol/link/link.h"

namespace tessera {

// How much may be sent before the other end's Receive() takes it, and so how much a peer can make us keep.
inline constexpr uint64_t kUcxWindowBytes = uint64_t{4} << 20;
inline constexpr uint64_t kUcxWindowFrames = 1024;

// Frames as they arrived, handed out in the order in which they were sent.
class UcxInbox {
 public:
  struct Frame {
    FrameHeader header;
    void* data = nullptr;     // UCX's; null when the frame is empty
    bool rendezvous = false;  // `data` stands for a payload that is still with its sender
  };

  // Takes frame `number` (from 0). kProtocolViolation: it has come before, is too long, or exceeds the window.
  Status Add(uint64_t number, const Frame& frame);
  bool HasNext() const { return !frames_.empty() && frames_.begin()->first == taken_; }
  // Takes out the next frame. Its sender may then be told that it was taken.
  Frame Take();
  // Takes out any frame that is left, to give back its data. After this Next() gives none.
  std::optional<Frame> Discard();

  uint64_t arrived() const { return arrived_; }  // frames, in any order
  uint64_t taken() const { return taken_; }      // frames
  uint64_t taken_bytes() const { return taken_bytes_; }

 private:
  std::map<uint64_t, Frame> frames_;
  uint64_t arrived_ = 0;
  uint64_t held_bytes_ = 0;
  uint64_t taken_ = 0;
  uint64_t taken_bytes_ = 0;
};

// A buffer whose pieces are taken in order and given back in any order.
class UcxSendBuffer {
 public:
  explicit UcxSendBuffer(std::span<std::byte> memory) : memory_(memory) {}
  // A piece of `bytes` (at most half the buffer), or no data() while there is no room.
  std::span<std::byte> Take(size_t bytes);
  void GiveBack(const std::byte* piece);

 private:
  struct Piece {
    size_t begin, end;
    bool in_use;
  };
  const std::span<std::byte> memory_;
  std::deque<Piece> pieces_;  // oldest first
};

}  // namespace tessera
