#include "protocol/wire/handshake.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/wire/holder.h"
#include "tests/protocol/wire/torture.h"

namespace tessera {
namespace {

ClientHello SampleHello() {
  ClientHello hello;
  hello.spec_hash = 0xabcdef;
  hello.pid = 4711;
  hello.session_index = 2;
  hello.window_rows = 0b1011;
  hello.sizes.command_bytes = 8u << 20;
  hello.program = "train.py";
  hello.devices = "0,1";
  hello.environment = {"CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_CACHE_PATH="};
  hello.vgpus = "train+notebook";
  hello.ticket.assign(200, std::byte{9});
  hello.holder = "name:laptop 7";
  hello.user = "alice";
  hello.host = "10.0.0.7";
  hello.wait_ms = 1'500;
  return hello;
}

ServerWelcome SampleWelcome() {
  ServerWelcome welcome;
  welcome.spec_hash = 0xabcdef;
  welcome.session_id = 99;
  welcome.session_index = 2;
  welcome.window_row = 3;
  welcome.mirrored = true;
  welcome.server = "tesserad 0.1";
  welcome.segments = {{1, SegmentKind::kRings, 4096, 0, 0}, {3, SegmentKind::kStaging, 8192, 0x1000, 0}};
  welcome.snapshot.assign(100, std::byte{5});
  return welcome;
}

TEST(Handshake, HelloComesThrough) {
  Result<ClientHello> hello = ClientHello::Decode(Encoded(SampleHello()));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->pid, 4711u);
  EXPECT_EQ(hello->session_index, 2u);
  EXPECT_EQ(hello->window_rows, 0b1011u);
  EXPECT_EQ(hello->sizes, SampleHello().sizes);
  EXPECT_EQ(hello->program, "train.py");
  EXPECT_EQ(hello->devices, "0,1");
  EXPECT_EQ(hello->environment, SampleHello().environment);
  EXPECT_EQ(hello->vgpus, SampleHello().vgpus);
  EXPECT_EQ(hello->ticket, SampleHello().ticket);
  EXPECT_EQ(hello->holder, "name:laptop 7");
  EXPECT_EQ(hello->user, "alice");
  EXPECT_EQ(hello->host, "10.0.0.7");
}

TEST(Handshake, HoldersHaveOneOfTheForms) {
  for (const std::string good : {"", "anonymous", "uid:0", "uid:4294967295", "name:x", "name:uid:0"}) {
    ClientHello hello = SampleHello();
    hello.holder = good;
    Result<ClientHello> decoded = ClientHello::Decode(Encoded(hello));
    ASSERT_TRUE(decoded.ok()) << good;
    EXPECT_EQ(decoded->holder, good);
  }
  const std::string long_name = "name:" + std::string(kHolderBytesMax - 4, 'x');
  for (const std::string& bad :
       {std::string("x"), std::string("uid:"), std::string("uid:-1"), std::string("uid:+1"), std::string("uid:01"),
        std::string("uid:1 "), std::string("uid:4294967296"), std::string("UID:1"), std::string("name:"),
        std::string("name:a\x1b[2J"), std::string("name:a\nb"), std::string("name:\xff"), std::string("name:a\0b", 8),
        std::string("anonymous "), std::string("\0", 1), long_name}) {
    ClientHello hello = SampleHello();
    hello.holder = bad;
    EXPECT_FALSE(ClientHello::Decode(Encoded(hello)).ok()) << bad;
  }
}

TEST(Handshake, HoldersOfUsersAndNames) {
  EXPECT_EQ(UserHolder(1000), "uid:1000");
  EXPECT_EQ(UserOf("uid:1000"), 1000u);
  EXPECT_EQ(UserOf("name:uid:1000"), std::nullopt);
  EXPECT_EQ(NameHolder("laptop"), "name:laptop");
  // What could be taken for somebody else's is nobody's.
  for (const std::string& name : {std::string(), std::string("a\tb"), std::string(kHolderBytesMax, 'x')}) {
    EXPECT_EQ(NameHolder(name), kAnonymousHolder) << name;
  }
  EXPECT_TRUE(IsNameHolder("name:x"));
  EXPECT_FALSE(IsNameHolder("uid:1"));
  EXPECT_FALSE(IsHolder(""));
}

TEST(Handshake, WelcomeComesThrough) {
  Result<ServerWelcome> welcome = ServerWelcome::Decode(Encoded(SampleWelcome()));
  ASSERT_TRUE(welcome.ok());
  EXPECT_EQ(welcome->session_id, 99u);
  EXPECT_EQ(welcome->window_row, 3u);
  EXPECT_TRUE(welcome->mirrored);
  ASSERT_EQ(welcome->segments.size(), 2u);
  EXPECT_EQ(welcome->segments[1].kind, SegmentKind::kStaging);
  EXPECT_EQ(welcome->segments[1].address, 0x1000u);
  EXPECT_EQ(welcome->snapshot, SampleWelcome().snapshot);
}

TEST(Handshake, DecodersStandTruncationAndDamage) {
  Torture(SampleHello());
  Torture(SampleWelcome());
  Torture(ServerRefusal{StatusCode::kVersionMismatch, "no"});
  Torture(SegmentOffer{2, SegmentKind::kHostMemory, 4096, 0x200000000000, 0});
  Torture(SegmentClose{2});
  Torture(Goodbye{StatusCode::kUnavailable, "bye"});
}

TEST(Handshake, TextsForPeopleCanBePrinted) {
  const std::string evil = "a\x1b[2J\xff";
  ClientHello hello = SampleHello();
  hello.program = evil;
  EXPECT_EQ(ClientHello::Decode(Encoded(hello))->program, "a?[2J?");
  ServerWelcome welcome = SampleWelcome();
  welcome.server = evil;
  EXPECT_EQ(ServerWelcome::Decode(Encoded(welcome))->server, "a?[2J?");
  EXPECT_EQ(Goodbye::Decode(Encoded(Goodbye{StatusCode::kUnavailable, evil}))->sentence, "a?[2J?");
  EXPECT_EQ(ServerRefusal::Decode(Encoded(ServerRefusal{StatusCode::kUnavailable, evil}))->sentence, "a?[2J?");
}

TEST(Handshake, MessagesOfAnotherKindAreRefused) {
  EXPECT_FALSE(ServerWelcome::Decode(Encoded(SampleHello())).ok());
  EXPECT_FALSE(SegmentClose::Decode(Encoded(Goodbye{})).ok());
  EXPECT_EQ(ControlKindOf(Encoded(SegmentClose{5})), ControlKind::kSegmentClose);
  EXPECT_EQ(ControlKindOf({}), ControlKind::kNone);
}

TEST(Handshake, EnvironmentEntriesAreNameAndValue) {
  for (const std::string& entry : {std::string("NAME"), std::string("=value"), std::string("A=b\0c", 5), std::string()}) {
    ClientHello hello = SampleHello();
    hello.environment = {entry};
    EXPECT_FALSE(ClientHello::Decode(Encoded(hello)).ok()) << entry;
  }
}

TEST(Handshake, BoundsHold) {
  ClientHello hello = SampleHello();
  hello.environment.assign(kEnvironmentEntriesMax + 1, "A=b");
  EXPECT_FALSE(ClientHello::Decode(Encoded(hello)).ok());
  hello.environment.assign(kEnvironmentEntriesMax, "A=" + std::string(kEnvironmentBytesMax / kEnvironmentEntriesMax, 'x'));
  EXPECT_FALSE(ClientHello::Decode(Encoded(hello)).ok());
  hello.environment.clear();
  hello.program.assign(kNameBytesMax + 1, 'p');
  EXPECT_FALSE(ClientHello::Decode(Encoded(hello)).ok());
  ServerWelcome welcome = SampleWelcome();
  welcome.snapshot.resize(kSnapshotBytesMax + 1);
  EXPECT_FALSE(ServerWelcome::Decode(Encoded(welcome)).ok());
  // A sentence is cut off rather than lost.
  Result<ServerRefusal> refusal = ServerRefusal::Decode(Encoded(ServerRefusal{StatusCode::kInternal, std::string(5000, 's')}));
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(refusal->sentence.size(), kSentenceBytesMax);
}

TEST(Handshake, MismatchNamesBothVersions) {
  EXPECT_TRUE(CheckPeerVersion("client", kWireVersion, 5, 5).ok());
  const Status version = CheckPeerVersion("client", 77, 5, 5);
  EXPECT_EQ(version.code(), StatusCode::kVersionMismatch);
  EXPECT_NE(version.message().find("77"), std::string::npos);
  EXPECT_NE(version.message().find("speaks " + std::to_string(kWireVersion)), std::string::npos);
  const Status hash = CheckPeerVersion("server", kWireVersion, 0xaaaa, 0xbbbb);
  EXPECT_EQ(hash.code(), StatusCode::kVersionMismatch);
  EXPECT_NE(hash.message().find("aaaa"), std::string::npos);
  EXPECT_NE(hash.message().find("bbbb"), std::string::npos);
}

TEST(Handshake, AHelloOfAnotherVersionStillTellsItsVersion) {
  ClientHello hello = SampleHello();
  hello.wire_version = 77;
  std::vector<std::byte> message = Encoded(hello);
  message.resize(24);  // a future hello may go on differently
  Result<ClientHello> decoded = ClientHello::Decode(message);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->wire_version, 77u);
  EXPECT_EQ(decoded->spec_hash, 0xabcdefu);
  EXPECT_TRUE(decoded->program.empty());
}

}  // namespace
}  // namespace tessera
