#include "server/gate/broker_line.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Message>
Bytes Encoded(const Message& message) {
  Encoder out;
  message.Encode(out);
  return Bytes(out.bytes().begin(), out.bytes().end());
}

// Its form is what it was, no beginning of it is a message, and damage is refused or means something.
template <typename Message>
void Torture(const Message& message) {
  const Bytes bytes = Encoded(message);
  Result<Message> same = Message::Decode(bytes);
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(Encoded(same.value()), bytes);
  EXPECT_NE(BrokerWordOf(bytes), BrokerWord::kNone);
  for (size_t size = 0; size < bytes.size(); ++size) {
    Result<Message> cut = Message::Decode(std::span(bytes).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.status().code(), StatusCode::kProtocolViolation) << size;
  }
  Bytes longer = bytes;
  longer.resize(bytes.size() + 8);
  EXPECT_FALSE(Message::Decode(longer).ok());
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i) {
    Bytes damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<std::byte>(1 << random() % 8);
    Result<Message> read = Message::Decode(damaged);
    EXPECT_TRUE(read.ok() || read.status().code() == StatusCode::kProtocolViolation);
  }
}

GpusMessage SomeGpus(size_t count) {
  GpusMessage gpus;
  gpus.uuids.resize(count);
  gpus.memory_bytes.assign(count, 7);
  gpus.context_bytes.assign(count, 5);
  gpus.waiting_workers = 3;
  for (size_t i = 0; i < count; ++i) gpus.uuids[i].fill(static_cast<std::byte>(i + 1));
  return gpus;
}

TEST(BrokerLine, EveryMessageComesThrough) {
  Torture(SomeGpus(2));
  Torture(VgpuFileMessage{"/etc/tessera/vgpus.toml", 3, 1234});
  Torture(VgpuFileAnswer{3, StatusCode::kInvalidArgument, "vgpus.toml:7: limit 2 is 1 above 1"});
  Torture(AskMessage{7, std::string("a+\0\xff", 4), "uid:1000", false});
  Torture(AskAnswer{7, StatusCode::kOk, "", {0, 15}});
  Torture(CameMessage{9, 4711, "train"});
  Torture(LeftMessage{9});
  Torture(FoundMessage{9, 1, FoundMessage::What::kMemory});
  Torture(SeenMessage{{{9, 1, 5}, {10, 0, 0}}});
  Torture(ReadyMessage{"0.1.0"});
  Torture(AliveMessage{});
  FiguresMessage figures;
  figures.sharings = {{0, "fair", "metered", 0}, {1, "fixed", "free", 0}};
  figures.vgpus.resize(2);
  figures.vgpus[0].name = "train";
  figures.vgpus[0].got_1s = 0.7;
  figures.vgpus[1].waits = true;
  Torture(figures);
  Torture(OwnersMessage{true, {{"train", {"uid:7", "name:alice"}}, {"default", {}}}});
  Torture(ReportedMessage{5, {{3, 1, 100, 70, 5}, {4, 0, 0, 0, 0}}});
  Torture(EndMessage{9, 10});
  Torture(KeptMessage{3, "[[vgpu]]"});
  Torture(AnsweredMessage{true, {"uid:7", "id", 5, "made"}});
  Torture(ToldMessage{40});
  Torture(ControlKeysMessage{4, "/c.pem", "/k.pem", "/a.pem", true, {1, 2, 3, 4}});
  Torture(ControlKeysAnswer{4, StatusCode::kPermissionDenied, "it has expired"});
}

// 512 vGPUs with the longest names: some 112,600 of the 131,072 bytes of a message.
TEST(BrokerLine, TheLargestFiguresAreOneMessage) {
  FiguresMessage figures;
  figures.sharings.assign(kGateRowsMax, {0, "static-slots", "metered", 1});
  ServerReport::Vgpu vgpu;
  vgpu.name.assign(63, 'v');
  vgpu.priority = "best-effort";
  figures.vgpus.assign(ServerReport::kVgpusMax, vgpu);
  const std::vector<std::byte> message = Encoded(figures);
  EXPECT_LT(message.size(), kBrokerMessageBytesMax);
  Result<FiguresMessage> decoded = FiguresMessage::Decode(message);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->vgpus, figures.vgpus);
  EXPECT_EQ(decoded->sharings, figures.sharings);
}

TEST(BrokerLine, TheLongestListOfWhatWorkersSaidIsOneMessage) {
  ReportedMessage reported;
  reported.rows.resize(ReportedMessage::kRowsMax + 1);
  const std::vector<std::byte> message = Encoded(reported);
  EXPECT_LT(message.size(), kBrokerMessageBytesMax);
  EXPECT_EQ(ReportedMessage::Decode(message)->rows.size(), ReportedMessage::kRowsMax);
}

TEST(BrokerLine, FieldsComeThrough) {
  Result<AskMessage> ask = AskMessage::Decode(Encoded(AskMessage{7, std::string("a\0b", 3), "uid:1000"}));
  EXPECT_EQ(ask->id, 7u);
  EXPECT_EQ(ask->vgpus, std::string("a\0b", 3));
  EXPECT_EQ(ask->holder, "uid:1000");
  Result<AskAnswer> answer = AskAnswer::Decode(Encoded(AskAnswer{8, StatusCode::kPermissionDenied, "no", {3, 1}}));
  EXPECT_EQ(answer->code, StatusCode::kPermissionDenied);
  EXPECT_EQ(answer->sentence, "no");
  EXPECT_EQ(answer->rows, (std::vector<uint32_t>{3, 1}));
  Result<GpusMessage> gpus = GpusMessage::Decode(Encoded(SomeGpus(kGateRowsMax)));
  ASSERT_EQ(gpus->uuids.size(), kGateRowsMax);
  EXPECT_EQ(gpus->uuids[15][0], std::byte{16});
  Result<CameMessage> came = CameMessage::Decode(Encoded(CameMessage{9, 4711, "train"}));
  EXPECT_EQ(came->worker_pid, 4711u);
  EXPECT_EQ(came->vgpus, "train");
}

TEST(BrokerLine, BoundsHold) {
  const auto refused = [](const auto& message) {
    return std::remove_cvref_t<decltype(message)>::Decode(Encoded(message)).status().code() == StatusCode::kProtocolViolation;
  };
  EXPECT_TRUE(refused(SomeGpus(kGateRowsMax + 1)));
  EXPECT_TRUE(refused(VgpuFileMessage{"f", 1, kVgpuFileBytesMax + 1}));
  EXPECT_TRUE(refused(AskMessage{1, std::string(kVgpuListBytesMax + 1, 'a'), "uid:0"}));
  EXPECT_TRUE(refused(CameMessage{1, 1, std::string(kVgpuListBytesMax + 1, 'a')}));
  EXPECT_TRUE(refused(AskAnswer{1, StatusCode::kOk, "", std::vector<uint32_t>(kGateRowsMax + 1)}));
  EXPECT_TRUE(refused(AskAnswer{1, StatusCode::kOk, "", {kGateRowsMax}}));
  EXPECT_TRUE(refused(AskAnswer{1, static_cast<StatusCode>(99), "", {}}));
  EXPECT_FALSE(refused(AskMessage{1, std::string(kVgpuListBytesMax, 'a'), "uid:0"}));
  EXPECT_TRUE(refused(AskMessage{1, "a", "root"}));
  EXPECT_FALSE(refused(VgpuFileMessage{"f", 1, kVgpuFileBytesMax}));
  // A sentence is cut off rather than lost.
  Result<VgpuFileAnswer> answer =
      VgpuFileAnswer::Decode(Encoded(VgpuFileAnswer{1, StatusCode::kInternal, std::string(9000, 's')}));
  ASSERT_TRUE(answer.ok());
  EXPECT_GT(answer->sentence.size(), 1000u);
}

TEST(BrokerLine, EveryMessageFits) {
  EXPECT_LE(Encoded(VgpuFileMessage{std::string(9000, 'p'), 1, 1}).size(), kBrokerMessageBytesMax);
  EXPECT_LE(Encoded(AskAnswer{1, StatusCode::kOk, std::string(9000, 's'), std::vector<uint32_t>(kGateRowsMax)}).size(),
            kBrokerMessageBytesMax);
}

TEST(BrokerLine, OthersAreNone) {
  EXPECT_EQ(BrokerWordOf({}), BrokerWord::kNone);
  EXPECT_EQ(BrokerWordOf(Bytes(64)), BrokerWord::kNone);
  Bytes unknown = Encoded(AliveMessage{});
  unknown[4] = std::byte{50};
  EXPECT_EQ(BrokerWordOf(unknown), BrokerWord::kNone);
  EXPECT_FALSE(LeftMessage::Decode(Encoded(AliveMessage{})).ok());
  EXPECT_EQ(BrokerWordOf(Encoded(LeftMessage{1})), BrokerWord::kLeft);
}

}  // namespace
}  // namespace tessera
