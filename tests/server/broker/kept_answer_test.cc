#include "server/broker/kept_answer.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tessera {
namespace {

KeptAnswer Some() {
  ShownVgpu a{{{"a", 0.3, 0.5, Priority::kProtected, Overrun::kEnd, 1 << 20, 3, 2, 24}, 1, {"uid:7", "name:x"}, MadeBy::kApi, 9},
              "GPU-1",
              4,
              ""};
  return {"vGPU 'a'",
          {.code = CallCode::kOk, .sentence = "", .vgpus = {a, {.vgpu = {.spec = {.name = "b"}}, .problem = "gone"}}}};
}

TEST(KeptAnswer, ItComesThrough) {
  const KeptAnswer refused{"my.toml", {.code = CallCode::kAborted, .sentence = "an old revision"}};
  for (const KeptAnswer& kept : {Some(), refused}) {
    const std::optional<KeptAnswer> read = KeptAnswerOf(BytesOf(kept));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->about, kept.about);
    EXPECT_EQ(read->answer, kept.answer);
  }
}

TEST(KeptAnswer, WhatIsNoneIsNotRead) {
  const std::string bytes = BytesOf(Some());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(KeptAnswerOf(std::string_view(bytes).substr(0, size))) << size;
  EXPECT_FALSE(KeptAnswerOf(bytes + '\0'));
  std::string other_form = bytes;
  ++other_form[0];
  EXPECT_FALSE(KeptAnswerOf(other_form));
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    (void)KeptAnswerOf(damaged);
  }
}

TEST(KeptAnswer, OneThatIsTooLongIsNone) {
  KeptAnswer kept = Some();
  kept.answer.sentence.assign(AnsweredRequest::kAnswerBytesMax, 'x');
  EXPECT_EQ(BytesOf(kept), "");
}

// What a file of 64 KiB makes, and what is kept of all vGPUs, is longer as text than its answer is.
TEST(KeptAnswer, TheLongestImportsAnswerIsKept) {
  KeptAnswer kept{.answer = {.code = CallCode::kOk}};
  ShownVgpu shown = Some().answer.vgpus[0];
  shown.vgpu.owners.clear();
  shown.gpu.assign(40, 'g');
  shown.vgpu.spec.name.assign(8, 'n');
  // `[[vgpu]]`, its keys, and what belongs to them: 150 bytes and more.
  kept.answer.vgpus.assign(KeptMessage::kTextBytesMax / 150, shown);
  EXPECT_NE(BytesOf(kept), "");
}

TEST(KeptAnswer, EachFieldOfARequestIsInItsDigest) {
  using Kind = VgpuCall::Kind;
  const VgpuCall call{.kind = Kind::kUpdate, .holder = "uid:0", .request_id = "7", .name = "a"};
  std::vector<VgpuCall> others(17, call);
  others[0].kind = Kind::kCreate;
  others[1].name = "b";
  others[2].fields.gpu = "";
  others[3].fields.request = 0;
  others[4].fields.limit = 0;
  others[5].fields.memory_bytes = 0;
  others[6].fields.priority = "";
  others[7].fields.overrun = "";
  others[8].fields.isolation = "";
  others[9].fields.max_sessions = 0;
  others[10].fields.processes = 0;
  others[11].fields.owners = std::vector<std::string>();
  others[12].fields.annotations = {{"a", ""}};
  others[13].revision = 1;
  others[14].force = true;
  others[15].grace_s = 1;
  others[16].text = "x";
  std::set<uint64_t> digests = {DigestOf(call)};
  for (const VgpuCall& other : others) digests.insert(DigestOf(other));
  EXPECT_EQ(digests.size(), 1 + others.size());
  VgpuCall same = call;
  same.holder = "uid:1";
  same.request_id = "8";
  EXPECT_EQ(DigestOf(same), DigestOf(call));
}

}  // namespace
}  // namespace tessera
