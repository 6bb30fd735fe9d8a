// A relay whose link brings frames of a hostile host, and the other end of its channel on this one.
// Input: u8 flags (bit 0: the relay stands at the client, bit 1: the handshake is the input's as well), then frames:
// u8 kind, u8 target, u8 flags (bit 0: position follows, bit 1: number follows; else they are what they should be), u16
// bytes, the payload. With bit 2 of the first flags the session at the client outlives its links; kLostKind ends one.
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "protocol/relay/relay.h"
#include "tests/fuzz/target.h"
#include "tests/protocol/channel/channel_fixture.h"

namespace tessera::fuzz {
namespace {

constexpr size_t kFramesMax = 64;
constexpr uint8_t kLostKind = 8;  // behind the kinds of frames: the link is lost

ServerWelcome Welcome() {
  ServerWelcome welcome;
  welcome.spec_hash = kTestSpecHash;
  welcome.mirrored = true;
  welcome.sizes = TestHello().sizes;
  return welcome;
}

template <typename Message>
Input Encoded(const Message& message) {
  Encoder out;
  message.Encode(out);
  return Input(out.bytes().begin(), out.bytes().end());
}

// The far host: says what the input says, listens to nothing.
class HostileLink : public Link {
 public:
  struct Frame {
    FrameKind kind;
    Input payload;
  };
  // `first`: what comes before the input. `ended` is called once, when the input has.
  HostileLink(Reader input, std::deque<Frame> first, std::function<void()> ended)
      : input_(input), first_(std::move(first)), ended_(std::move(ended)) {}
  bool ended() const { return ended_ == nullptr; }

  Status Send(const FrameHeader&, std::span<const std::byte>) override { return Status::Ok(); }
  Result<FrameHeader> Receive(const Place& place) override {
    FrameHeader header;
    std::span<const std::byte> payload;
    const bool is_first = !first_.empty();
    if (is_first) {
      header.kind = first_.front().kind;
      payload = first_.front().payload;
    } else if (!NextFrame(&header, &payload)) {
      if (ended_) std::exchange(ended_, nullptr)();
      return Status(StatusCode::kUnavailable, "the input has ended");
    } else if (header.kind == static_cast<FrameKind>(kLostKind)) {
      return Status(StatusCode::kUnavailable, "the link is lost");
    }
    header.bytes = payload.size();
    Result<std::span<std::byte>> to = place(header);
    if (!to.ok()) return to.status();
    FUZZ_CHECK(to->size() == payload.size());
    if (!payload.empty()) std::memcpy(to->data(), payload.data(), payload.size());
    if (is_first) first_.pop_front();
    return header;
  }
  void Close() override {}

 private:
  bool NextFrame(FrameHeader* header, std::span<const std::byte>* payload) {
    if (input_.empty() || ++frames_ > kFramesMax) return false;
    header->kind = static_cast<FrameKind>(input_.Take<uint8_t>() % 9);
    header->target = input_.Take<uint8_t>();
    const auto flags = input_.Take<uint8_t>();
    const auto bytes = input_.Take<uint16_t>();
    uint64_t& position = positions_[header->target];
    header->position = (flags & 1) != 0 ? input_.Take<uint64_t>() : position;
    header->number = (flags & 2) != 0 ? input_.Take<uint64_t>() : NumberOf(header->kind, header->position + bytes);
    *payload = input_.Bytes(bytes);
    position = header->position + payload->size();
    return true;
  }

  // Of messages and transfers: the next one; of ring bytes: all of them may be read.
  uint64_t NumberOf(FrameKind kind, uint64_t end) {
    if (kind == FrameKind::kControl) return ++controls_;
    if (kind == FrameKind::kTransfer) return ++transfers_;
    return kind == FrameKind::kTransferPart ? transfers_ + 1 : end;
  }

  Reader input_;
  uint64_t controls_ = 0;
  uint64_t transfers_ = 0;
  std::deque<Frame> first_;
  std::function<void()> ended_;
  size_t frames_ = 0;
  std::map<uint32_t, uint64_t> positions_;
};

// Gives the same link again, as long as there is input.
class HostileSupply : public LinkSupply {
 public:
  explicit HostileSupply(HostileLink& link) : link_(link) {}
  Result<NextLink> Next(uint64_t) override {
    if (link_.ended()) return Status(StatusCode::kTimedOut, "the input has ended");
    return NextLink{Borrowed(), {}};
  }
  void Stop() override {}
  std::shared_ptr<Link> Borrowed() { return {std::shared_ptr<void>(), &link_}; }

 private:
  HostileLink& link_;
};

// Reads what the relay let through, as stub and worker do.
void ReadAll(Channel& channel) {
  (void)channel.ProcessSocket().ok();
  RecordBuffer buffer;
  if (channel.side() == Channel::Side::kClient) {
    while (!channel.replies_in().CopyOut(&buffer).empty()) {
    }
    return;
  }
  while (!channel.commands_in().CopyOut(&buffer).empty()) {
  }
  while (!channel.answers_in().CopyOut(&buffer).empty()) {
  }
}

void RunAtServer(Reader input, bool own_handshake) {
  auto [near, far] = SocketPair();
  std::unique_ptr<Channel> server;
  bool open = false;
  std::thread serving([&, socket = far.get()] {
    Result<std::unique_ptr<Channel>> channel = ServeOne(UniqueFd(dup(socket)));
    if (channel.ok()) server = std::move(*channel);
  });
  ClientHello hello = TestHello();
  hello.mirrored = true;
  std::deque<HostileLink::Frame> first;
  if (!own_handshake) first.push_back({FrameKind::kControl, Encoded(hello)});
  HostileLink link(input, std::move(first), [&] {
    if (open) ReadAll(*server);
    shutdown(far.get(), SHUT_RDWR);
  });
  Result<std::unique_ptr<Relay>> relay = Relay::AtServer(std::move(near), link, Soon());
  if (!relay.ok()) shutdown(far.get(), SHUT_RDWR);
  serving.join();
  open = server != nullptr;
  if (relay.ok()) (void)(*relay)->Run().ok();
}

void RunAtClient(Reader input, bool own_handshake, bool goes_on) {
  auto [far, near] = SocketPair();
  std::unique_ptr<Channel> client;
  bool open = false;
  std::thread attaching([&, socket = far.get()] {
    ServerWelcome welcome;
    Result<std::unique_ptr<Channel>> channel = Channel::Attach(UniqueFd(dup(socket)), TestHello(), &welcome, Soon());
    if (channel.ok()) client = std::move(*channel);
  });
  std::deque<HostileLink::Frame> first;
  if (goes_on) first.push_back({FrameKind::kResume, ResumeOffer{{}, 10'000}.Encode()});
  if (!own_handshake) first.push_back({FrameKind::kControl, Encoded(Welcome())});
  HostileLink link(input, std::move(first), [&] {
    if (open) ReadAll(*client);
    shutdown(far.get(), SHUT_RDWR);
  });
  auto supply = std::make_unique<HostileSupply>(link);
  const std::shared_ptr<Link> borrowed = supply->Borrowed();
  Result<std::unique_ptr<Relay>> relay = Relay::AtClient(std::move(near), borrowed, std::move(supply), Soon());
  if (!relay.ok()) shutdown(far.get(), SHUT_RDWR);
  attaching.join();
  open = client != nullptr;
  if (relay.ok()) (void)(*relay)->Run().ok();
}

Writer& PutFrame(Writer& out, FrameKind kind, uint32_t target, std::span<const std::byte> payload) {
  return out.Put(static_cast<uint8_t>(kind))
      .Put(static_cast<uint8_t>(target))
      .Put(uint8_t{0})
      .Put(static_cast<uint16_t>(payload.size()))
      .Bytes(payload);
}

}  // namespace

void Run(std::span<const std::byte> input) {
  Reader reader(input);
  const auto flags = reader.Take<uint8_t>();
  const bool own_handshake = (flags & 2) != 0;
  if ((flags & 1) != 0) return RunAtClient(reader, own_handshake, (flags & 4) != 0);
  RunAtServer(reader, own_handshake);
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const bool at_client : {false, true}) {
    for (const bool own_handshake : {false, true}) {
      Writer out;
      out.Put(static_cast<uint8_t>((at_client ? 1 : 0) | (own_handshake ? 2 : 0)));
      ClientHello hello = TestHello();
      hello.mirrored = true;
      if (own_handshake) PutFrame(out, FrameKind::kControl, 0, at_client ? Encoded(Welcome()) : Encoded(hello));
      const uint32_t segment = at_client ? 5 : 2;
      PutFrame(out, FrameKind::kControl, 0, Encoded(SegmentOffer{segment, SegmentKind::kHostMemory, 8192, 0, 0}));
      PutFrame(out, FrameKind::kTransfer, segment, Input(100));
      PutFrame(out, FrameKind::kTransfer, kStagingSegment, Input(100));
      for (const TransferRing ring : {TransferRing::kCommands, TransferRing::kReplies, TransferRing::kAnswers}) {
        std::vector<std::byte> record = TestRecord(1);
        const uint32_t size = static_cast<uint32_t>(record.size());
        std::memcpy(record.data(), &size, sizeof(size));
        PutFrame(out, FrameKind::kRing, static_cast<uint32_t>(ring), record);
        seeds.push_back(out.input());
      }
      PutFrame(out, FrameKind::kAck, static_cast<uint32_t>(TransferRing::kReplies), {});
      PutFrame(out, FrameKind::kControl, 0, Encoded(SegmentClose{segment}));
      PutFrame(out, FrameKind::kControl, 0, Encoded(Goodbye{}));
      seeds.push_back(out.input());
    }
  }
  // A transfer of which a part is lost with its link, two returns, the end.
  Writer out;
  out.Put(uint8_t{1 | 4});
  ResumeState state;
  for (const TransferRing ring : {TransferRing::kCommands, TransferRing::kAnswers})
    state.rings.push_back({static_cast<uint32_t>(ring), 0, 0, 0});
  PutFrame(out, FrameKind::kTransferPart, kStagingSegment, Input(100));
  for (int i = 0; i < 2; ++i) {
    PutFrame(out, static_cast<FrameKind>(kLostKind), 0, {});
    PutFrame(out, FrameKind::kResume, 0, state.Encode());
    PutFrame(out, FrameKind::kProbe, 0, {});
    PutFrame(out, FrameKind::kTransfer, kStagingSegment, Input(100));
    seeds.push_back(out.input());
  }
  PutFrame(out, FrameKind::kControl, 0, Encoded(Goodbye{}));
  seeds.push_back(out.input());
  return seeds;
}

}  // namespace tessera::fuzz
