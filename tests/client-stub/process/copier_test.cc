#include "client-stub/process/copier.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "client-stub/process/past_caches.h"

namespace tessera {
namespace {

// Every head, middle and tail of lines, and nothing beside them.
void ExpectAsMemcpy(const std::function<void(void* to, const void* from, size_t bytes)>& copy) {
  std::vector<unsigned char> from(700), wanted(700), to(700);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(1 + i % 251);
  for (size_t begin = 0; begin < 130; begin += begin < 70 ? 1 : 13) {
    for (size_t bytes = 0; bytes < 330; ++bytes) {
      std::fill(to.begin(), to.end(), 0xAB);
      wanted = to;
      std::memcpy(wanted.data() + begin, from.data() + 200 - begin, bytes);
      copy(to.data() + begin, from.data() + 200 - begin, bytes);
      ASSERT_EQ(to, wanted) << begin << ", " << bytes;
    }
  }
}

TEST(CopyPastCachesTest, CopiesAsMemcpy) {
  ExpectAsMemcpy(CopyPastCachesBy16);
  for (const ReadAhead ahead : {ReadAhead::kNo, ReadAhead::kYes}) {
    ExpectAsMemcpy([ahead](void* to, const void* from, size_t bytes) { CopyPastCaches(to, from, bytes, ahead); });
  }
}

TEST(CopyPastCachesTest, CopiesLinesAsMemcpy) {
  if (!HasStoresOf64()) GTEST_SKIP() << "this processor has no AVX-512: nothing stores 64 bytes at once";
  for (const ReadAhead ahead : {ReadAhead::kNo, ReadAhead::kYes}) {
    ExpectAsMemcpy([ahead](void* to, const void* from, size_t bytes) { CopyPastCachesBy64(to, from, bytes, ahead); });
  }
}

// Where the memory ends, what is asked for ahead is not there.
TEST(CopyPastCachesTest, ReadsNothingBehindItsMemory) {
  const auto page = static_cast<size_t>(getpagesize());
  void* const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 0x5A, page);
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  std::vector<char> to(page);
  CopyPastCaches(to.data(), pages, page, ReadAhead::kYes);
  EXPECT_EQ(std::count(to.begin(), to.end(), 0x5A), static_cast<ptrdiff_t>(page));
  munmap(pages, 2 * page);
}

// On any machine.
Copier& OfFourThreads() {
  static auto* const copier = new Copier(4);
  return *copier;
}

// Of this process.
size_t Threads() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Entries("/proc/self/task"), Entries()));
}

// Copies into the middle of a frame and looks at every byte, also those around.
void CopyAndCompare(Copier& copier, size_t bytes, unsigned seed, std::optional<Copier::Reader> beside = std::nullopt) {
  constexpr size_t kFrame = 64;
  std::vector<unsigned char> from(bytes), to(bytes + 2 * kFrame, 0xAB);
  std::mt19937 random(seed);
  for (size_t i = 0; i < bytes; i += 997) from[i] = static_cast<unsigned char>(random());
  if (beside) {
    copier.CopyBeside(to.data() + kFrame, from.data(), bytes, bytes + Copier::kBeyondCachesBytesMin, *beside);
  } else {
    copier.Copy(to.data() + kFrame, from.data(), bytes);
  }
  ASSERT_TRUE(std::equal(from.begin(), from.end(), to.begin() + kFrame));
  for (size_t i = 0; i < kFrame; ++i) {
    ASSERT_EQ(to[i], 0xAB);
    ASSERT_EQ(to[bytes + kFrame + i], 0xAB);
  }
}

TEST(CopierTest, CopiesEverySizeExactly) {
  for (Copier* const copier : {&Copier::Process(), &OfFourThreads()}) {
    for (const size_t bytes :
         {size_t{0}, size_t{1}, 3 * Copier::kPartBytesMin + 5, Copier::kSharedBytesMin - 1, Copier::kSharedBytesMin,
          Copier::kSharedBytesMin + 1, 5 * Copier::kPartBytesMax + 3, size_t{9} << 20}) {
      CopyAndCompare(*copier, bytes, static_cast<unsigned>(bytes));
      for (const auto reader : {Copier::Reader::kDevice, Copier::Reader::kProgram}) {
        CopyAndCompare(*copier, bytes, static_cast<unsigned>(bytes), reader);
      }
    }
  }
}

TEST(CopierTest, CopiesOfSeveralThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (unsigned round = 0; round < 6; ++round)
        CopyAndCompare(OfFourThreads(), (size_t{1} << 20) + t * 300001 + round, t * 100 + round);
    });
  }
  for (auto& thread : threads) thread.join();
}

// More callers than there are places for jobs, jobs so short that helpers come and go all the time, and some that sleep between.
TEST(CopierTest, EachPartIsDoneOnce) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 10; ++t) {
    threads.emplace_back([t] {
      for (unsigned round = 0; round < 200; ++round) {
        std::vector<std::atomic<int>> done(2 + (t + round) % 30);
        OfFourThreads().ForEach(done.size(), [&](size_t part) { ++done[part]; });
        for (const auto& count : done) ASSERT_EQ(count.load(), 1);
        if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// All threads take part, also when they slept before: a part ends when as many as there are threads have begun.
TEST(CopierTest, AllThreadsHelp) {
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> begun{0};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    OfFourThreads().ForEach(4, [&](size_t) {
      ++begun;
      while (begun.load() < 4 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    EXPECT_LT(std::chrono::steady_clock::now(), end) << "round " << round;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // longer than they look for work
  }
}

// Where cores are few, a copy beside the program is made by its own thread: it starts no other.
TEST(CopierTest, FewCoresAreLeftToTheProgram) {
  static auto* const copier = new Copier(2);
  constexpr size_t kBytes = size_t{8} << 20;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  const size_t before = Threads();
  copier->CopyBeside(to.data(), from.data(), kBytes, kBytes, Copier::Reader::kDevice);
  EXPECT_EQ(Threads(), before);
  EXPECT_EQ(to, from);
  copier->Copy(to.data(), from.data(), kBytes);
  EXPECT_EQ(Threads(), before + 1);
}

}  // namespace
}  // namespace tessera
