// Both ends of a channel in one process.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/channel/channel.h"
#include "tests/protocol/channel/ring_fixture.h"
#include "tests/support/times.h"

namespace tessera {

inline constexpr uint64_t kTestSpecHash = 0x1234;

inline std::pair<UniqueFd, UniqueFd> SocketPair() { return MakeSocketPair().value(); }

inline ClientHello TestHello() {
  ClientHello hello;
  hello.spec_hash = kTestSpecHash;
  hello.program = "test";
  hello.sizes = ChannelSizes{64 << 10, 32 << 10, 4 << 10, 4 << 10, kStagingBytesMin};
  return hello;
}

// The server's part of a handshake.
inline Result<std::unique_ptr<Channel>> ServeOne(UniqueFd socket) {
  Result<ClientHello> hello = ReceiveHello(socket.get(), kTestSpecHash, Soon());
  if (!hello.ok()) return hello.status();
  ServerWelcome welcome;
  welcome.spec_hash = kTestSpecHash;
  welcome.session_id = 17;
  welcome.session_index = hello->session_index;
  welcome.mirrored = hello->mirrored;
  welcome.sizes = hello->sizes;
  welcome.server = "test server";
  welcome.snapshot.assign(1000, std::byte{9});
  return Channel::Create(std::move(socket), &welcome, Soon());
}

struct ChannelEnds {
  std::unique_ptr<Channel> client, server;
  ServerWelcome welcome;
};

// `client_socket` and `server_socket` are connected, directly or by a mirror.
inline ChannelEnds OpenEnds(UniqueFd client_socket, UniqueFd server_socket, const ClientHello& hello = TestHello()) {
  ChannelEnds ends;
  std::thread server([&] {
    Result<std::unique_ptr<Channel>> channel = ServeOne(std::move(server_socket));
    ASSERT_TRUE(channel.ok()) << channel.status().message();
    ends.server = std::move(*channel);
  });
  Result<std::unique_ptr<Channel>> channel = Channel::Attach(std::move(client_socket), hello, &ends.welcome, Soon());
  EXPECT_TRUE(channel.ok()) << channel.status().message();
  server.join();
  if (channel.ok()) ends.client = std::move(*channel);
  return ends;
}

inline std::vector<std::byte> TestRecord(uint64_t value, size_t size = 64) {
  std::vector<std::byte> record(size);
  const uint32_t id = 1;
  std::memcpy(record.data() + 4, &id, sizeof(id));
  std::memcpy(record.data() + 32, &value, sizeof(value));
  return record;
}

// The value of the next record, waiting for it.
inline Result<uint64_t> NextValue(RingConsumer& in, const StopPredicate& stop) {
  RecordBuffer buffer;
  for (;;) {
    const auto record = in.CopyOut(&buffer);
    if (record.size() >= 40) {
      uint64_t value = 0;
      std::memcpy(&value, record.data() + 32, sizeof(value));
      return value;
    }
    RETURN_IF_ERROR(in.Wait(Soon(), stop));
  }
}

}  // namespace tessera
