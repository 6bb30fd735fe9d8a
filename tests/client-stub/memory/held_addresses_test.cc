#include "client-stub/memory/held_addresses.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;

bool MapAt(uint64_t address, uint64_t bytes) {
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
         reinterpret_cast<void*>(address);
}
void UnmapAt(uint64_t address, uint64_t bytes) { munmap(reinterpret_cast<void*>(address), bytes); }

#if !defined(__SANITIZE_THREAD__)  // it ends a process that maps at these addresses

// Where no sanitizer has its heap.
constexpr Range kStretches[] = {{0x500000000000, 64 * kGiB}, {0x510000000000, 128 * kGiB}};

TEST(HeldAddressesTest, TakesTheLowestFreePlaceOfTheFirstStretch) {
  HeldAddresses held(kStretches);
  const auto first = held.Hold(kGiB, 32 * kMiB, {});
  const auto second = held.Hold(3 * kGiB, 32 * kMiB, {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, (Range{kStretches[0].base, kGiB}));
  EXPECT_EQ(*second, (Range{first->end(), 3 * kGiB}));
  EXPECT_FALSE(MapAt(second->base + kGiB, 4096)) << "it is held";
  held.Release(*first);
  EXPECT_TRUE(MapAt(first->base, 4096)) << "and given back";
  UnmapAt(first->base, 4096);
  EXPECT_EQ(held.Hold(2 * kGiB, 32 * kMiB, {})->base, second->end());
  EXPECT_EQ(held.Hold(kGiB, 32 * kMiB, {})->base, first->base);
}

TEST(HeldAddressesTest, AlignsAndGoesOnInTheNextStretch) {
  HeldAddresses held(kStretches);
  const auto first = held.Hold(kMiB, 4096, {});
  const auto aligned = held.Hold(32 * kMiB, 16 * kGiB, {});
  ASSERT_TRUE(first && aligned);
  EXPECT_EQ(aligned->base, kStretches[0].base + 16 * kGiB);
  EXPECT_EQ(held.Hold(60 * kGiB, 4096, {})->base, kStretches[1].base);
  EXPECT_EQ(held.Hold(kGiB, kTiB, {}), std::nullopt) << "the stretches have one multiple, which is taken";
  EXPECT_EQ(held.Hold(129 * kGiB, 4096, {}), std::nullopt);
  EXPECT_EQ(held.Hold(kGiB, uint64_t{1} << 47, {}), std::nullopt);
}

TEST(HeldAddressesTest, GoesAroundWhatIsMappedAndWhatShallBeAvoided) {
  HeldAddresses held(kStretches);
  const uint64_t base = kStretches[0].base;
  ASSERT_TRUE(MapAt(base + kGiB, 4096));
  ASSERT_TRUE(MapAt(base + 4 * kGiB, 4096));
  EXPECT_EQ(held.Hold(kGiB, 32 * kMiB, {})->base, base);
  EXPECT_EQ(held.Hold(2 * kGiB, 32 * kMiB, {})->base, base + kGiB + 32 * kMiB);
  const Range avoid[] = {{base + 5 * kGiB, kMiB}, {base + 6 * kGiB, kMiB}};
  EXPECT_EQ(held.Hold(2 * kGiB, kGiB, avoid)->base, base + 7 * kGiB);
  EXPECT_EQ(held.Hold(2 * kGiB, kGiB, {})->base, base + 5 * kGiB);
  // A mapping that came after it has looked, and one that is gone again.
  ASSERT_TRUE(MapAt(base + 9 * kGiB, 4096));
  EXPECT_EQ(held.Hold(kGiB, kGiB, {})->base, base + 10 * kGiB);
  UnmapAt(base + 9 * kGiB, 4096);
  EXPECT_EQ(held.Hold(60 * kGiB, kGiB, {})->base, kStretches[1].base);
  EXPECT_EQ(held.Hold(68 * kGiB, 4096, {})->base, kStretches[1].base + 60 * kGiB);
  std::vector<Range> rest;
  while (const auto range = held.Hold(kGiB, kGiB, {})) rest.push_back(*range);
  EXPECT_TRUE(std::ranges::find(rest, base + 9 * kGiB, &Range::base) != rest.end()) << "found when there was nothing else";
  UnmapAt(base + kGiB, 4096);
  UnmapAt(base + 4 * kGiB, 4096);
}

TEST(HeldAddressesTest, HoldsAGivenRangeWhereItIsFree) {
  HeldAddresses held(kStretches);
  const Range outside{0x650000000000, kGiB};
  EXPECT_TRUE(held.HoldAt(outside));
  EXPECT_FALSE(held.HoldAt({outside.base + kMiB, kMiB}));
  EXPECT_FALSE(held.HoldAt({outside.base - kMiB, 2 * kMiB}));
  EXPECT_FALSE(held.HoldAt({outside.base, 0}));
  EXPECT_FALSE(held.HoldAt({uint64_t{1} << 47, kGiB}));
  EXPECT_FALSE(held.HoldAt({(uint64_t{1} << 47) - kMiB, kGiB}));
  EXPECT_FALSE(held.HoldAt({~uint64_t{0} - kGiB + 1, kGiB}));
  held.Release(outside);
  EXPECT_TRUE(held.HoldAt(outside));
  held.Release(outside);
  const Range inside{kStretches[0].base + kGiB, kGiB};
  EXPECT_TRUE(held.HoldAt(inside));
  EXPECT_EQ(held.Hold(2 * kGiB, kGiB, {})->base, inside.end());
  held.Release(inside);
}

TEST(HeldAddressesTest, TwoPickersOfOneProcessNeverCollide) {
  HeldAddresses one(kStretches), other(kStretches);
  std::vector<Range> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(*one.Hold(kGiB, kMiB, {}));
    all.push_back(*other.Hold(kGiB / 2, kMiB, {}));
  }
  std::ranges::sort(all, {}, &Range::base);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].end(), all[i].base);
}

TEST(HeldAddressesTest, RandomUseOfThreadsNeverOverlaps) {
  HeldAddresses held(kStretches);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&held, t] {
      std::mt19937_64 random(t);
      std::vector<Range> live;
      for (int i = 0; i < 500; ++i) {
        if (live.size() < 8 && random() % 2 == 0) {
          if (const auto range = held.Hold((1 + random() % 2000) * kMiB, kMiB << random() % 8, {})) {
            // Memory in place of the reservation: another range over it would take away what was written.
            ASSERT_NE(mmap(reinterpret_cast<void*>(range->base), 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                      MAP_FAILED);
            *reinterpret_cast<uint64_t*>(range->base) = range->base + t;
            live.push_back(*range);
          }
        } else if (!live.empty()) {
          EXPECT_EQ(*reinterpret_cast<uint64_t*>(live.back().base), live.back().base + t);
          held.Release(live.back());
          live.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#if !defined(__SANITIZE_ADDRESS__)  // has mapped more than any limit already
TEST(HeldAddressesTest, CountsAsAddressSpaceOfTheProcess) {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  ASSERT_EQ(std::fscanf(file, "%lu", &pages), 1);
  std::fclose(file);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit limit = before;
  limit.rlim_cur = pages * 4096 + kTiB;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  std::vector<Range> all;
  while (const auto range = HeldAddresses::Process().Hold(158 * kGiB, 32 * kMiB, {})) all.push_back(*range);
  EXPECT_EQ(all.size(), 6u);
  if (!all.empty()) {
    HeldAddresses::Process().Release(all.back());
    EXPECT_EQ(HeldAddresses::Process().Hold(158 * kGiB, 32 * kMiB, {}), all.back());
  }
  for (const Range& range : all) HeldAddresses::Process().Release(range);
  setrlimit(RLIMIT_AS, &before);
}

TEST(HeldAddressesTest, AnOrdinaryProcessHasRoomForFourHundredLargeRanges) {
  std::vector<Range> all;
  while (const auto range = HeldAddresses::Process().Hold(158 * kGiB, 32 * kMiB, {})) all.push_back(*range);
  // The windows of a session take 20 TiB of it.
  EXPECT_GE(all.size(), 400 + 20 * kTiB / (158 * kGiB));
  for (const Range& range : all) HeldAddresses::Process().Release(range);
}
#endif

#endif

TEST(HeldAddressesTest, ThereIsRoomForTheTestsOfASanitizedBuild) {
  const auto range = HeldAddresses::Process().Hold(kGiB, 32 * kMiB, {});
  ASSERT_TRUE(range);
  EXPECT_EQ(range->base % (32 * kMiB), 0u);
  HeldAddresses::Process().Release(*range);
}

}  // namespace
}  // namespace tessera
