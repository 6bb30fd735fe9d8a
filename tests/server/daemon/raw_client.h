// A client written against the wire format alone (protocol/wire_format.md): what it sends is the test's to choose, mistakes
// and lies included. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/channel/ring.h"
#include "protocol/channel/segment.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/handle.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/record.h"

namespace tessera {

class RawClient {
 public:
  struct Reply {
    ReplyHeader header{};
    std::vector<std::byte> payload;
  };

  // Connects and makes the handshake. ok() says whether there is a session.
  explicit RawClient(const std::string& path, const ChannelSizes& sizes = {});
  bool ok() const { return rings_.data() != nullptr; }

  // Appends a record to `commands` as a correct client would.
  template <typename Request>
  uint64_t Send(const Request& request, uint32_t flags = kWantsReply) {
    Encoder encoder;
    request.Encode(encoder);
    return SendBytes(Request::kId, encoder.bytes(), flags);
  }
  // The sequence of the record; 0 when there was no room.
  uint64_t SendBytes(uint32_t call, std::span<const std::byte> message, uint32_t flags = kWantsReply);
  // Sends and waits for the reply's result (CUresult); nothing when the session ended first.
  template <typename Request>
  std::optional<int> Call(const Request& request) {
    Encoder encoder;
    request.Encode(encoder);
    if (!SendPatiently(Request::kId, encoder.bytes(), kWantsReply)) return std::nullopt;
    const std::optional<Reply> reply = WaitFor(sequence_);
    return reply ? std::optional<int>(reply->header.result) : std::nullopt;
  }
  std::optional<Reply> WaitFor(uint64_t sequence, int timeout_ms = 20'000);
  // A primary context of device 0, current for every later record.
  bool RetainContext();
  void SetContext(HandleId context) { context_ = context; }
  // The client thread that later records come from; 1 in the beginning.
  void SetThread(uint32_t thread) { thread_ = thread; }
  // As SendBytes(), but waits for room. False when the session ended, or no room came in time.
  bool SendPatiently(uint32_t call, std::span<const std::byte> message, uint32_t flags, int timeout_ms = 20'000);

  // The sentence of the server's good-bye, "" when it hung up without one; nothing when it did neither in time.
  std::optional<std::string> End(int timeout_ms = 10'000);
  void HangUp() { socket_.reset(); }

  int socket() const { return socket_.get(); }
  const ServerWelcome& welcome() const { return welcome_; }
  RingHeader& commands() { return *At(0).header; }
  std::byte* command_bytes() { return At(0).data; }
  RingHeader& replies() { return *At(1).header; }
  RingProducer& commands_out() { return *commands_; }
  RingProducer& answers_out() { return *answers_; }
  std::span<std::byte> staging() { return staging_.bytes(); }

 private:
  RingMemory At(int ring);

  UniqueFd socket_;
  ServerWelcome welcome_;
  Mapping rings_;
  Mapping staging_;
  std::unique_ptr<RingProducer> commands_, answers_;
  std::unique_ptr<RingConsumer> replies_;
  uint64_t sequence_ = 0;
  uint32_t thread_ = 1;
  HandleId context_;
};

}  // namespace tessera
