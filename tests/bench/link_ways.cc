#include "tests/bench/link_ways.h"

#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <tuple>

#include "protocol/relay/relay.h"
#include "tests/bench/plain_sockets.h"
#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {
namespace {

struct Links {
  std::unique_ptr<Link> ends[2];
};

struct Sockets {
  UniqueFd ends[2];
  AdaptiveSpin spin[2];

  bool All(int end, std::byte* at, size_t bytes, bool send) {
    const int socket = ends[end].get();
    return MoveAll(socket, send ? nullptr : &spin[end], at, bytes, [&](std::byte* from, size_t some) -> Moved {
      const ssize_t done =
          send ? ::send(socket, from, some, MSG_DONTWAIT | MSG_NOSIGNAL) : ::recv(socket, from, some, MSG_DONTWAIT);
      if (done < 0 && errno == EAGAIN) return {0, static_cast<short>(send ? POLLOUT : POLLIN)};
      return {done, 0};
    });
  }
};

// Two relays, and the ends of the channel behind them.
struct Relayed {
  explicit Relayed(LinkPair pair) : links{std::move(pair.first), std::move(pair.second)} {
    auto [client, client_relay] = SocketPair();
    auto [server_relay, server] = SocketPair();
    relays[0] = std::thread([this, socket = std::move(client_relay)]() mutable { Carry(0, std::move(socket)); });
    relays[1] = std::thread([this, socket = std::move(server_relay)]() mutable { Carry(1, std::move(socket)); });
    ClientHello hello = TestHello();
    hello.sizes = ChannelSizes{};
    channels = OpenEnds(std::move(client), std::move(server), hello);
  }
  ~Relayed() {
    Close();
    for (std::thread& relay : relays) relay.join();
  }
  void Carry(int end, UniqueFd socket) {
    StayAt(end);
    auto relay = end == 0 ? Relay::AtClient(std::move(socket), *links[end], Soon())
                          : Relay::AtServer(std::move(socket), *links[end], Soon());
    if (relay.ok()) (void)(*relay)->Run().ok();
  }
  void Close() {
    channels.client->Leave();
    channels.server->Leave();
  }
  Channel& channel(int end) { return end == 0 ? *channels.client : *channels.server; }

  bool Send(int end, size_t bytes) {
    if (bytes > kSmallBytes) {
      const uint64_t place = sent[end] % kPlaces;
      // A place is free again when the record that named it was read.
      std::atomic<uint64_t>& read_there = read[1 - end];
      for (uint64_t seen; sent[end] >= (seen = read_there.load(std::memory_order_acquire)) + kPlaces;) read_there.wait(seen);
      ++sent[end];
      // Each direction has its own half.
      const uint64_t offset = (static_cast<uint64_t>(end) * kPlaces + place) * kBulkBytes;
      if (!channel(end).Publish(kStagingSegment, offset, bytes).ok()) return false;
    }
    RingProducer& out = end == 0 ? channel(end).commands_out() : channel(end).replies_out();
    while (!out.TryAppend(record)) {
      if (!out.WaitForSpace(record.size(), kNoDeadline, channel(end).stop()).ok()) return false;
    }
    return true;
  }
  bool Receive(int end) {
    RingConsumer& in = end == 0 ? channel(end).replies_in() : channel(end).commands_in();
    bool ok = true;
    while (ok && in.CopyOut(&buffers[end]).empty()) ok = in.Wait(kNoDeadline, channel(end).stop()).ok();
    // At the end everything was read, as far as a sender is concerned that waits.
    read[end].fetch_add(ok ? 1 : kPlaces, std::memory_order_release);
    read[end].notify_all();
    return ok;
  }

  static constexpr uint64_t kPlaces = kRegionBytes / kBulkBytes / 2;
  std::unique_ptr<Link> links[2];
  std::thread relays[2];
  ChannelEnds channels;
  const std::vector<std::byte> record = TestRecord(1, kSmallBytes);
  RecordBuffer buffers[2];
  uint64_t sent[2] = {};
  std::atomic<uint64_t> read[2] = {};
};

}  // namespace

Way OverLinks(LinkPair pair, bool registered) {
  auto links = std::make_shared<Links>();
  links->ends[0] = std::move(pair.first);
  links->ends[1] = std::move(pair.second);
  return {[links](int end, std::span<const std::byte> bytes) {
            return links->ends[end]->Send({FrameKind::kTransfer, 0, bytes.size(), 0, 0}, bytes).ok();
          },
          [links](int end, std::span<std::byte> bytes) {
            return links->ends[end]
                ->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> { return bytes.first(header.bytes); })
                .ok();
          },
          [links] {
            for (auto& end : links->ends) end->Close();
          },
          [links, registered](int end, std::span<std::byte> region) {
            if (registered) links->ends[end]->Register(region);
          }};
}

Way OverSocket() {
  auto sockets = std::make_shared<Sockets>();
  std::tie(sockets->ends[0], sockets->ends[1]) = ConnectSockets();
  return {[sockets](int end, std::span<const std::byte> bytes) {
            return sockets->All(end, const_cast<std::byte*>(bytes.data()), bytes.size(), true);
          },
          [sockets](int end, std::span<std::byte> bytes) { return sockets->All(end, bytes.data(), bytes.size(), false); },
          [sockets] {
            for (UniqueFd& end : sockets->ends) shutdown(end.get(), SHUT_RDWR);
          }};
}

Way OverRelays(LinkPair pair) {
  auto relayed = std::make_shared<Relayed>(std::move(pair));
  return {[relayed](int end, std::span<const std::byte> bytes) { return relayed->Send(end, bytes.size()); },
          [relayed](int end, std::span<std::byte>) { return relayed->Receive(end); }, [relayed] { relayed->Close(); }};
}

void StayAt(int end) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = static_cast<int>(std::thread::hardware_concurrency());
  for (int core = 0; core < count; ++core) {
    if (end < 0 || count < 2 || core / (count / 2) == end) CPU_SET(core, &cores);
  }
  sched_setaffinity(0, sizeof(cores), &cores);
}

}  // namespace tessera
