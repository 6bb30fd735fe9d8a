#include "protocol/channel/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace tessera {
namespace {

constexpr uint64_t kBytes = 16 * kPageBytes;

// An address range that was free a moment ago.
uint64_t FreeAddress(uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  munmap(at, bytes);
  return reinterpret_cast<uint64_t>(at);
}

TEST(SegmentFile, IsSealedAndNotInherited) {
  Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
  ASSERT_TRUE(file.ok());
  EXPECT_NE(ftruncate(file->get(), kPageBytes), 0);
  EXPECT_NE(ftruncate(file->get(), 2 * kBytes), 0);
  EXPECT_NE(fcntl(file->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(CheckSegmentFile(file->get(), kBytes).ok());
  EXPECT_EQ(CheckSegmentFile(file->get(), kBytes + 1).code(), StatusCode::kProtocolViolation);
}

TEST(SegmentFile, OneThatCouldShrinkIsRefused) {
  UniqueFd file(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  EXPECT_EQ(CheckSegmentFile(file.get(), kBytes).code(), StatusCode::kProtocolViolation);
  UniqueFd other(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(CheckSegmentFile(other.get(), kBytes).code(), StatusCode::kProtocolViolation);
}

TEST(Mapping, TwoMappingsShareTheirBytes) {
  Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
  Result<Mapping> one = Mapping::Map(file->get(), kBytes, 0, MapPlacement::Anywhere());
  Result<Mapping> other = Mapping::Map(file->get(), kBytes - kPageBytes, kPageBytes, MapPlacement::Anywhere());
  ASSERT_TRUE(one.ok() && other.ok());
  one->data()[kPageBytes + 5] = std::byte{42};
  EXPECT_EQ(other->data()[5], std::byte{42});
}

TEST(Mapping, AFixedPlaceMustBeFree) {
  Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
  const uint64_t address = FreeAddress(kBytes);
  {
    Result<Mapping> mapping = Mapping::Map(file->get(), kBytes, 0, MapPlacement::FreeRange(address));
    ASSERT_TRUE(mapping.ok()) << mapping.status().message();
    EXPECT_EQ(reinterpret_cast<uint64_t>(mapping->data()), address);
    EXPECT_EQ(Mapping::Map(file->get(), kBytes, 0, MapPlacement::FreeRange(address)).status().code(),
              StatusCode::kResourceExhausted);
    EXPECT_EQ(ReserveAddressRange(address, kBytes).code(), StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(ReserveAddressRange(address, kBytes).ok());
  ReleaseAddressRange(address, kBytes);
}

TEST(Mapping, UnmappingRestoresTheReservation) {
  Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
  const uint64_t address = FreeAddress(4 * kBytes);
  ASSERT_TRUE(ReserveAddressRange(address, 4 * kBytes).ok());
  {
    Result<Mapping> mapping = Mapping::Map(file->get(), kBytes, 0, MapPlacement::OverReservation(address + kBytes));
    ASSERT_TRUE(mapping.ok());
    mapping->data()[0] = std::byte{1};
  }
  // Still ours: nobody else gets the place.
  EXPECT_EQ(ReserveAddressRange(address + kBytes, kBytes).code(), StatusCode::kResourceExhausted);
  ReleaseAddressRange(address, 4 * kBytes);
}

#if !defined(__SANITIZE_THREAD__)
TEST(Mapping, IsAbsentInAForkedChild) {
  Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
  Result<Mapping> mapping = Mapping::Map(file->get(), kBytes, 0, MapPlacement::Anywhere());
  ASSERT_TRUE(mapping.ok());
  const pid_t child = fork();
  if (child == 0) {
    unsigned char resident = 0;
    _exit(mincore(mapping->data(), kPageBytes, &resident) != 0 && errno == ENOMEM ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

TEST(SegmentTable, ResolvesOnlyWhatIsInside) {
  Result<UniqueFd> file = CreateSegmentFile("test", kBytes);
  Result<Mapping> mapping = Mapping::Map(file->get(), kBytes, 0, MapPlacement::Anywhere());
  std::byte* data = mapping->data();
  SegmentTable table;
  ASSERT_TRUE(table.Insert(2, std::move(*mapping)).ok());
  EXPECT_EQ(table.Resolve(2, 0, kBytes).size(), kBytes);
  EXPECT_EQ(table.Resolve(2, 100, 5).data(), data + 100);
  EXPECT_NE(table.Resolve(2, kBytes, 0).data(), nullptr);
  EXPECT_EQ(table.Resolve(2, kBytes, 1).data(), nullptr);
  EXPECT_EQ(table.Resolve(2, 1, kBytes).data(), nullptr);
  EXPECT_EQ(table.Resolve(2, UINT64_MAX, 2).data(), nullptr);
  EXPECT_EQ(table.Resolve(2, 8, UINT64_MAX).data(), nullptr);
  EXPECT_EQ(table.Resolve(3, 0, 1).data(), nullptr);
  EXPECT_TRUE(table.Overlaps(reinterpret_cast<uint64_t>(data) + kBytes - 1, 1));
  EXPECT_FALSE(table.Overlaps(reinterpret_cast<uint64_t>(data) + kBytes, 1));
}

TEST(SegmentTable, FindsWhereAnAddressLies) {
  std::vector<std::byte> one(1000), other(1000);
  SegmentTable table;
  ASSERT_TRUE(table.InsertBorrowed(2, one).ok());
  ASSERT_TRUE(table.InsertBorrowed(4, other).ok());
  EXPECT_EQ(table.InsertBorrowed(4, one).code(), StatusCode::kProtocolViolation);
  uint32_t id = 0;
  uint64_t offset = 0;
  EXPECT_TRUE(table.Locate(other.data() + 10, 990, &id, &offset));
  EXPECT_EQ(id, 4u);
  EXPECT_EQ(offset, 10u);
  EXPECT_FALSE(table.Locate(other.data() + 10, 991, &id, &offset));
  EXPECT_FALSE(table.Locate(one.data() - 1, 1, &id, &offset));
  EXPECT_TRUE(table.Remove(4));
  EXPECT_FALSE(table.Remove(4));
  EXPECT_FALSE(table.Locate(other.data(), 1, &id, &offset));
}

}  // namespace
}  // namespace tessera
