// In a process of its own: what is taken stays taken.
#include "server/worker/high_addresses.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>

#include "protocol/memory/window_table.h"

namespace tessera {
namespace {

uint64_t Map(uint64_t bytes) {
  return reinterpret_cast<uint64_t>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

bool IsFree(const Range& range) {
  void* const wanted = reinterpret_cast<void*>(range.base);
  void* const got =
      mmap(wanted, range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  munmap(got, range.bytes);
  return got == wanted;
}

// Of this process.
HighAddresses& Taken() {
  static HighAddresses taken;
  return taken;
}

TEST(HighAddressesTest, MappingsLieBelow) {
  const uint64_t before = Map(4096);
  ASSERT_GT(before, kLowMappings.end()) << "the kernel places mappings elsewhere";
  Taken().Occupy();
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{1} << 20, uint64_t{1} << 30, uint64_t{1} << 40}) {
    const uint64_t address = Map(bytes);
    EXPECT_TRUE(kLowMappings.contains(address, bytes)) << bytes << " bytes at " << std::hex << address;
  }
  // The process goes on as any: threads, memory of its own.
  int sum = 0;
  std::thread([&] { sum = static_cast<int>(std::vector<char>(8 << 20, 1)[4096]); }).join();
  EXPECT_EQ(sum, 1);
}

TEST(HighAddressesTest, WindowsCanStillBeHad) {
  Taken().Occupy();
  for (const WindowPair& row : kWindowTable) {
    Taken().Vacate(row.device);
    Taken().Vacate(row.host);
    EXPECT_TRUE(IsFree(row.device)) << std::hex << row.device.base;
    EXPECT_TRUE(IsFree(row.host)) << std::hex << row.host.base;
    EXPECT_FALSE(row.device.contains(kLowMappings.base, 1) || row.host.contains(kLowMappings.base, 1));
  }
}

}  // namespace
}  // namespace tessera
