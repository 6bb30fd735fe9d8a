// What the relay at the server's host says of the client, whatever that says of itself.
#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "protocol/link/in_process_link.h"
#include "protocol/relay/relay.h"
#include "protocol/wire/server_query.h"
#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {
namespace {

template <typename Message>
std::vector<std::byte> Encoded(const Message& message) {
  Encoder out(kControlMessageBytesMax);
  message.Encode(out);
  return {out.bytes().begin(), out.bytes().end()};
}

ServerQuery AskedAs(const std::string& holder) {
  ServerQuery question;
  question.ask = ServerQuery::Ask::kState;
  question.holder = holder;
  return question;
}

// The first message that the server gets when a client of another host has sent `message`.
std::vector<std::byte> AtTheServer(const std::vector<std::byte>& message, const std::string& peer) {
  auto [far, near] = MakeInProcessLink();
  auto [relays, servers] = SocketPair();
  EXPECT_TRUE(far->Send({FrameKind::kControl, 0, message.size(), 0, 0}, message).ok());
  std::thread relay([&relays = relays, link = std::shared_ptr<Link>(std::move(near)), &peer] {
    const Relay::Dial dial = [&](uint64_t) -> Result<UniqueFd> { return std::move(relays); };
    EXPECT_FALSE(Relay::AtServer(dial, link, nullptr, peer, Soon(), nullptr, "10.0.0.7").ok());
    relays.reset();
  });
  Result<SocketMessage> got = ReceiveMessage(servers.get(), kControlMessageBytesMax, Soon());
  servers.reset();
  relay.join();
  return got.ok() ? got->bytes : std::vector<std::byte>();
}

TEST(HolderRelay, WritesOverWhatTheClientHasPutThere) {
  for (const std::string claimed : {"", "uid:0", "name:boss", "anonymous"}) {
    ClientHello said = TestHello();
    said.mirrored = true;
    said.holder = claimed;
    said.user = "alice";
    said.host = "boss";
    Result<ClientHello> hello = ClientHello::Decode(AtTheServer(Encoded(said), "laptop"));
    ASSERT_TRUE(hello.ok());
    EXPECT_EQ(hello->holder, "name:laptop");
    EXPECT_EQ(hello->host, "10.0.0.7");
    EXPECT_EQ(hello->user, "alice");
    hello = ClientHello::Decode(AtTheServer(Encoded(said), ""));
    ASSERT_TRUE(hello.ok());
    EXPECT_EQ(hello->holder, "anonymous");
    const ServerQuery question = AskedAs(claimed);
    EXPECT_EQ(ServerQuery::Decode(AtTheServer(Encoded(question), "laptop"))->holder, "name:laptop");
    EXPECT_EQ(ServerQuery::Decode(AtTheServer(Encoded(question), ""))->holder, "anonymous");
  }
}

// What cannot be read is not passed on as it came: who knows what the server reads in it.
TEST(HolderRelay, QuestionsOfAnotherVersionKeepNothingButThat) {
  ServerQuery question = AskedAs("uid:0");
  question.wire_version = kWireVersion + 1;
  const std::vector<std::byte> got = AtTheServer(Encoded(question), "laptop");
  EXPECT_EQ(ServerQuery::Decode(got)->wire_version, kWireVersion + 1);
  const std::string text(reinterpret_cast<const char*>(got.data()), got.size());
  EXPECT_EQ(text.find("uid:0"), std::string::npos);
  EXPECT_TRUE(AtTheServer(std::vector<std::byte>(12, std::byte{7}), "laptop").empty());
}

}  // namespace
}  // namespace tessera
