#include "server/broker/vgpu_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr AdmissionRules kRules = {.request_zero = true};

FileVgpu Wanted(const std::string& name, double request, size_t line = 1) {
  return {.spec = {name, request, 1, Priority::kNormal}, .line = line};
}
PresentVgpu Present(const std::string& name, double request, uint32_t sessions) {
  return {{name, request, 1, Priority::kNormal}, sessions};
}
const PresentVgpu kBuiltin = Present("default", 0, 3);

// Does what a plan says, step by step; each has to be admitted.
std::map<std::string, VgpuSpec> Done(const std::vector<PresentVgpu>& present, const VgpuChange& change,
                                     const AdmissionRules& rules) {
  std::map<std::string, VgpuSpec> there;
  const auto admit = [&](const VgpuSpec& spec) {
    there.erase(spec.name);
    std::vector<VgpuSpec> others;
    for (const auto& [name, each] : there) others.push_back(each);
    const Status status = AdmitVgpu(others, spec, rules);
    EXPECT_TRUE(status.ok()) << status.message();
    there[spec.name] = spec;
  };
  for (const PresentVgpu& each : present) there[each.spec.name] = each.spec;
  for (const std::string& name : change.removed) there.erase(name);
  for (const VgpuSpec& spec : change.changed) admit(spec);
  for (const FileVgpu& vgpu : change.added) admit(vgpu.spec);
  return there;
}

TEST(VgpuChange, KeepsWhatIsTheSame) {
  const VgpuChange change =
      PlanChange(std::vector{kBuiltin, Present("a", 0.5, 1)}, std::vector{Wanted("a", 0.5)}, kRules).value();
  EXPECT_THAT(change.removed, IsEmpty());
  EXPECT_THAT(change.retired, IsEmpty());
  EXPECT_THAT(change.changed, IsEmpty());
  EXPECT_TRUE(change.added.empty());
}

TEST(VgpuChange, MemoryIsAskedForByThoseThatGrowAlone) {
  constexpr AdmissionRules kMemoryRules = {.request_zero = true, .memory_bytes = 100};
  const auto with = [](auto vgpu, uint64_t bytes) {
    vgpu.spec.memory_bytes = bytes;
    return vgpu;
  };
  // More than there is by now: what is there already stays, and the order in the file does not matter.
  const std::vector present = {kBuiltin, with(Present("a", 0.1, 0), 80), with(Present("b", 0.1, 0), 40)};
  const auto plan = [&](std::vector<FileVgpu> wanted) { return PlanChange(present, wanted, kMemoryRules).status().message(); };
  EXPECT_EQ(plan({with(Wanted("a", 0.2), 80), with(Wanted("b", 0.1), 40)}), "");
  EXPECT_EQ(plan({with(Wanted("b", 0.1), 100), with(Wanted("a", 0.1), 0)}), "");
  EXPECT_THAT(plan({with(Wanted("b", 0.1, 3), 41), with(Wanted("a", 0.1), 80)}),
              StartsWith("line 3: vGPU 'b': memory 41 bytes is 21 bytes too much: the GPU has 100 bytes"));
  EXPECT_THAT(plan({with(Wanted("c", 0.1, 5), 21), with(Wanted("a", 0.1), 80)}), HasSubstr("vGPU 'c': memory 21"));
  // One that is gone from the file and has sessions keeps its own.
  const std::vector used = {kBuiltin, with(Present("a", 0.1, 2), 80)};
  EXPECT_THAT(PlanChange(used, std::vector{with(Wanted("c", 0.1), 21)}, kMemoryRules).status().message(),
              HasSubstr("1 bytes too much"));
  EXPECT_TRUE(PlanChange(used, std::vector{with(Wanted("c", 0.1), 20)}, kMemoryRules).ok());
}

TEST(VgpuChange, DefaultHasRoomBesideGrantsAndNobodyElseWithoutALimit) {
  constexpr AdmissionRules kMemoryRules = {.request_zero = true, .memory_bytes = 100};
  const auto with = [](auto vgpu, uint64_t bytes) {
    vgpu.spec.memory_bytes = bytes;
    return vgpu;
  };
  const auto plan = [&](std::vector<PresentVgpu> present, std::vector<FileVgpu> wanted) {
    return PlanChange(present, wanted, kMemoryRules).status().message();
  };
  const FileVgpu grant = with(Wanted("grant-1", 0.5, 0), 60);
  EXPECT_EQ(plan({kBuiltin}, {grant}), "");
  const PresentVgpu granted = with(Present("grant-1", 0.5, 1), 60);
  EXPECT_THAT(plan({kBuiltin, granted}, {grant, Wanted("train", 0.1, 2)}), StartsWith("line 2: vGPU 'train': without a limit"));
  // Its limit is taken away.
  EXPECT_THAT(plan({kBuiltin, granted, with(Present("train", 0.1, 0), 10)}, {grant, Wanted("train", 0.1, 2)}),
              StartsWith("line 2: vGPU 'train': without a limit"));
  EXPECT_EQ(plan({kBuiltin, granted}, {grant, with(Wanted("train", 0.1, 2), 40)}), "");
  EXPECT_THAT(plan({kBuiltin, Present("train", 0.1, 0)}, {Wanted("train", 0.1, 2), grant}), HasSubstr("is 60 bytes too much"));
  // One that has gone from the file, but has sessions.
  EXPECT_THAT(plan({kBuiltin, Present("train", 0.1, 1)}, {grant}), HasSubstr("'train' has no limit"));
}

TEST(VgpuChange, WhatIsLoweredComesFirst) {
  const std::vector present = {kBuiltin, Present("a", 0.3, 1), Present("b", 0.6, 1)};
  const VgpuChange change = PlanChange(present, std::vector{Wanted("a", 0.6), Wanted("b", 0.3)}, kRules).value();
  ASSERT_EQ(change.changed.size(), 2u);
  EXPECT_EQ(change.changed[0].name, "b");
  EXPECT_EQ(Done(present, change, kRules).at("a").request, 0.6);
}

TEST(VgpuChange, WhoHasSessionsStaysAsFarAsThereIsRoom) {
  const std::vector present = {kBuiltin, Present("a", 0.5, 2), Present("b", 0.2, 0)};
  const VgpuChange change = PlanChange(present, std::vector{Wanted("c", 0.7)}, kRules).value();
  EXPECT_THAT(change.removed, ElementsAre("b"));
  EXPECT_THAT(change.retired, ElementsAre("a"));
  EXPECT_NEAR(Done(present, change, kRules).at("a").request, 0.29, 1e-9);
  // With room it keeps what it has.
  EXPECT_THAT(PlanChange(present, {}, kRules).value().changed, IsEmpty());
}

TEST(VgpuChange, WithoutRequestZeroSomethingHasToBeLeft) {
  const std::vector present = {Present("a", 0.5, 2)};
  const Status status = PlanChange(present, std::vector{Wanted("b", 1)}, {.request_zero = false}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("vGPU 'a' is not wanted any more and has 2 sessions"));
  EXPECT_TRUE(PlanChange(present, std::vector{Wanted("b", 0.9)}, {.request_zero = false}).ok());
}

TEST(VgpuChange, WhatDoesNotFitIsNamedByItsLine) {
  const Status status = PlanChange(std::vector{kBuiltin}, std::vector{Wanted("a", 0.7, 4), Wanted("b", 0.3, 9)}, kRules).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), StartsWith("line 9: vGPU 'b': request 0.3 is 0.01 too much"));
}

// From any file that is admitted to any other.
TEST(VgpuChange, EveryStepIsAdmitted) {
  std::mt19937 random(3);
  for (int round = 0; round < 2'000; ++round) {
    const AdmissionRules rules = {.request_zero = round % 2 == 0};
    std::vector<PresentVgpu> present;
    if (rules.request_zero) present.push_back(kBuiltin);
    std::vector<FileVgpu> wanted;
    double before = 0, after = 0;
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      const double was = static_cast<double>(1 + random() % 60) / 100;
      const double will = static_cast<double>(1 + random() % 60) / 100;
      if (random() % 3 != 0 && before + was <= rules.requests_max()) {
        present.push_back(Present(name, was, random() % 2));
        before += was;
      }
      if (random() % 3 != 0 && after + will <= rules.requests_max() - 0.01) {
        wanted.push_back(Wanted(name, will));
        after += will;
      }
    }
    const Result<VgpuChange> change = PlanChange(present, wanted, rules);
    if (!change.ok()) {
      EXPECT_THAT(change.status().message(), HasSubstr("is not wanted any more"));
      continue;
    }
    const auto there = Done(present, change.value(), rules);
    for (const FileVgpu& vgpu : wanted) EXPECT_EQ(there.at(vgpu.spec.name), vgpu.spec);
  }
}

}  // namespace
}  // namespace tessera
