// A link over a stream of bytes: the 32 bytes of a FrameHeader (little-endian), then its payload.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "protocol/link/link.h"

namespace tessera {

class StreamLink : public Link {
 public:
  Status Send(const FrameHeader& header, std::span<const std::byte> payload) final;
  Status SendSoon(const FrameHeader& header, std::span<const std::byte> payload) final;
  Status Flush() final;
  Result<FrameHeader> Receive(const Place& place) final;

 private:
  // Copying a payload up to this size costs less than sending it alone.
  static constexpr size_t kSmallBytesMax = size_t{8} << 10;
  static constexpr size_t kGatheredBytesMax = size_t{64} << 10;

  // Sends all of `first`, then `second`. After a failure nothing can follow. The sending thread.
  virtual Status Write(std::span<const std::byte> first, std::span<const std::byte> second) = 0;
  // Waits for the next bytes of the stream and fills all of `to`. The receiving thread.
  virtual Status Fill(std::span<std::byte> to) = 0;

  void Gather(std::span<const std::byte> bytes) { gathered_.insert(gathered_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte> gathered_;  // waiting frames, and the header of the one being sent. Of the sending thread
};

}  // namespace tessera
