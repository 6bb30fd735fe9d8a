#include "scheduler/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

using testing::HasSubstr;

VgpuSpec Spec(const std::string& name, double request = 0.1, double limit = 1) {
  return {.name = name, .request = request, .limit = limit};
}

void ExpectRefused(const Status& status, StatusCode code, const std::string& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_THAT(status.message(), HasSubstr(words));
}

TEST(AdmissionTest, NamesAreShortAndPlain) {
  for (const std::string& name : {std::string("a"), std::string("Train-7_b.x"), std::string(63, 'n')})
    EXPECT_TRUE(CheckVgpuSpec(Spec(name)).ok()) << name;
  ExpectRefused(CheckVgpuSpec(Spec("")), StatusCode::kInvalidArgument, "name: it is empty");
  ExpectRefused(CheckVgpuSpec(Spec(std::string(65, 'n'))), StatusCode::kInvalidArgument, "65 characters, 2 more than 63");
  for (const std::string name : {"a b", "a/b", "\xc3\xa4", "a\n"})
    ExpectRefused(CheckVgpuSpec(Spec(name)), StatusCode::kInvalidArgument, "only A-Z");
  ExpectRefused(CheckVgpuSpec(Spec(std::string("a\0b", 3))), StatusCode::kInvalidArgument, "only A-Z");
}

TEST(AdmissionTest, SharesAreWithinTheirBounds) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ExpectRefused(CheckVgpuSpec(Spec("v", -0.25)), StatusCode::kInvalidArgument, "request -0.25 is 0.25 below 0");
  ExpectRefused(CheckVgpuSpec(Spec("v", 1.5)), StatusCode::kInvalidArgument, "request 1.5 is 0.5 above 1");
  ExpectRefused(CheckVgpuSpec(Spec("v", 0.1, 1.25)), StatusCode::kInvalidArgument, "limit 1.25 is 0.25 above 1");
  ExpectRefused(CheckVgpuSpec(Spec("v", 0, 0)), StatusCode::kInvalidArgument, "limit 0 is not above 0");
  ExpectRefused(CheckVgpuSpec(Spec("v", 0.5, 0.25)), StatusCode::kInvalidArgument, "limit 0.25 is 0.25 below the request 0.5");
  ExpectRefused(CheckVgpuSpec(Spec("v", nan)), StatusCode::kInvalidArgument, "request: it is no number");
  ExpectRefused(CheckVgpuSpec(Spec("v", 0.5, nan)), StatusCode::kInvalidArgument, "limit: it is no number");
  EXPECT_TRUE(CheckVgpuSpec(Spec("v", 0, 1)).ok());
  EXPECT_TRUE(CheckVgpuSpec(Spec("v", 1, 1)).ok());
}

TEST(AdmissionTest, RequestsAddUpToAllButWhatIsKeptForThoseWithout) {
  const AdmissionRules all = {.request_zero = false}, kept = {.request_zero = true};
  const VgpuSpec present[] = {Spec("a", 0.4), Spec("b", 0.3)};
  EXPECT_TRUE(AdmitVgpu(present, Spec("c", 0.3), all).ok());
  ExpectRefused(AdmitVgpu(present, Spec("c", 0.3), kept), StatusCode::kResourceExhausted,
                "vGPU 'c': request 0.3 is 0.01 too much: 0.7 of 0.99 are taken, 0.29 are left");
  EXPECT_TRUE(AdmitVgpu(present, Spec("c", 0.29), kept).ok());
  EXPECT_TRUE(AdmitVgpu(present, Spec("c", 0), kept).ok());
  ExpectRefused(AdmitVgpu(present, Spec("c", 0), all), StatusCode::kInvalidArgument, "request 0 is not admitted");
  ExpectRefused(AdmitVgpu(present, Spec("b", 0.1), kept), StatusCode::kInvalidArgument, "of this name");
}

TEST(AdmissionTest, DecimalsThatAddUpToOneFit) {
  std::vector<VgpuSpec> present;
  for (int i = 0; i < 9; ++i) present.push_back(Spec("v" + std::to_string(i), 0.1));
  EXPECT_TRUE(AdmitVgpu(present, Spec("last", 0.1), {.request_zero = false}).ok());
}

TEST(AdmissionTest, ThereIsAMostOfVgpus) {
  std::vector<VgpuSpec> present;
  for (size_t i = 0; i < kVgpusMax; ++i) present.push_back(Spec("v" + std::to_string(i), 0));
  ExpectRefused(AdmitVgpu(present, Spec("last", 0), {}), StatusCode::kResourceExhausted, "takes no more");
}

TEST(AdmissionTest, EachVgpuWithALimitHasRoomForAContext) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const AdmissionRules rules = {.memory_bytes = 10 * kGib, .context_bytes = kGib};
  const auto with = [](const std::string& name, uint64_t bytes) { return VgpuSpec{.name = name, .memory_bytes = bytes}; };
  EXPECT_TRUE(AdmitMemory({}, with("a", 9 * kGib), rules).ok());
  ExpectRefused(AdmitMemory({}, with("a", 10 * kGib), rules), StatusCode::kResourceExhausted,
                "memory 10 GiB is 1 GiB too much: the GPU has 10 GiB for vGPUs, and 9 GiB are left beside its context of 1 GiB");
  const VgpuSpec present[] = {with("a", 4 * kGib), with("free", 0)};
  EXPECT_TRUE(AdmitMemory(present, with("b", 4 * kGib), rules).ok());
  EXPECT_FALSE(AdmitMemory(present, with("b", 4 * kGib + 1), rules).ok());
  EXPECT_TRUE(AdmitMemory(present, with("c", 0), rules).ok());
  // A context that is larger than the GPU leaves nothing, and no more than that.
  EXPECT_FALSE(AdmitMemory(present, with("b", 1), {.memory_bytes = kGib, .context_bytes = UINT64_MAX}).ok());
}

TEST(AdmissionTest, EachProcessHasRoomForAContext) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const AdmissionRules rules = {.memory_bytes = 10 * kGib, .context_bytes = kGib};
  const VgpuSpec four{.name = "four", .memory_bytes = 4 * kGib, .processes = 4};
  EXPECT_EQ(MemoryTakenBy(four, rules), 8 * kGib);
  EXPECT_TRUE(AdmitMemory({}, four, rules).ok());
  const VgpuSpec present[] = {four};
  EXPECT_TRUE(AdmitMemory(present, {.name = "one", .memory_bytes = kGib}, rules).ok());
  ExpectRefused(
      AdmitMemory(present, {.name = "two", .memory_bytes = kGib, .processes = 2}, rules), StatusCode::kResourceExhausted,
      "memory 1 GiB is 1 GiB too much: the GPU has 10 GiB for vGPUs, and 0 bytes are left beside contexts of 2 processes "
      "of 2 GiB");
  ExpectRefused(CheckVgpuSpec({.name = "none", .processes = 0}), StatusCode::kInvalidArgument, "processes 0 is not 1 to 1024");
  EXPECT_FALSE(CheckVgpuSpec({.name = "many", .processes = kVgpuProcessesMax + 1}).ok());
}

TEST(AdmissionTest, BesideGrantsAVgpuWithoutALimitCountsAsTheWholeGpu) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const AdmissionRules rules = {.memory_bytes = 10 * kGib, .context_bytes = kGib};
  const auto with = [](const std::string& name, uint64_t bytes) { return VgpuSpec{.name = name, .memory_bytes = bytes}; };
  const VgpuSpec train[] = {with("train", 0)};
  ExpectRefused(AdmitMemory(train, with("grant-1", kGib), rules), StatusCode::kResourceExhausted,
                "vGPU 'grant-1': memory 1 GiB is 1 GiB too much: the GPU has 10 GiB for vGPUs, and 0 bytes are left beside its "
                "context of 1 GiB; vGPU 'train' has no limit of memory, and counts as the whole GPU beside grants");
  EXPECT_TRUE(AdmitMemory(train, with("notebook", 9 * kGib), rules).ok());  // no grant is there

  const VgpuSpec granted[] = {with("grant-1", 2 * kGib)};
  const std::string whole =
      "without a limit of memory it counts as the whole GPU beside grants, 10 GiB, which is 3 GiB too much: 7 GiB are left; give "
      "it a limit";
  ExpectRefused(AdmitMemory(granted, with("train", 0), rules), StatusCode::kResourceExhausted, "vGPU 'train': " + whole);
  ExpectRefused(AdmitMemory(granted, with("grant-2", 0), rules), StatusCode::kResourceExhausted, "vGPU 'grant-2': " + whole);
  EXPECT_TRUE(AdmitMemory(granted, with("grant-2", 6 * kGib), rules).ok());

  // Nothing is beside a grant that has it all.
  EXPECT_TRUE(AdmitMemory({}, with("grant-1", 0), rules).ok());
  const VgpuSpec all[] = {with("grant-1", 0)};
  EXPECT_FALSE(AdmitMemory(all, with("grant-2", 1), rules).ok());
  EXPECT_FALSE(AdmitMemory(all, with("train", 1), rules).ok());
  EXPECT_FALSE(AdmitMemory(all, with("train", 0), rules).ok());
  EXPECT_TRUE(AdmitMemory(train, with("grant-1", kGib), {}).ok());  // of a card whose memory is not known
}

TEST(VgpuSpecTest, PrioritiesHaveWords) {
  for (const Priority each : {Priority::kProtected, Priority::kNormal, Priority::kBestEffort}) {
    Priority parsed{};
    EXPECT_TRUE(ParsePriority(PriorityName(each), &parsed));
    EXPECT_EQ(parsed, each);
  }
  Priority untouched = Priority::kNormal;
  EXPECT_FALSE(ParsePriority("urgent", &untouched));
}

}  // namespace
}  // namespace tessera
