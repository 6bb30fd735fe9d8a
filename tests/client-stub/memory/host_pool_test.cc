#include "client-stub/memory/host_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kStream = 7, kOther = 8;

class HostPoolTest : public testing::Test {
 protected:
  HostPool Make(uint64_t bytes_max) {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_HOST;
    Result<HostFile> file = HostFile::Create(HostFile::Kind::kPool, 2 * bytes_max, -1);
    EXPECT_TRUE(file.ok());
    return HostPool(marks_, std::move(*file), location, bytes_max, true, false);
  }
  // As HostPools does, at addresses that nothing is mapped at.
  std::optional<Range> Allocate(HostPool& pool, uint64_t bytes, uint64_t stream, HandleId context = HandleId(8)) {
    if (const auto block = pool.Take(bytes, stream)) return block;
    const auto in_file = pool.BeginGrowth(bytes);
    if (!in_file) return std::nullopt;
    HostPool::Piece piece;
    piece.context = context;
    piece.in_file = *in_file;
    piece.placed.block = Range{next_, in_file->bytes};
    next_ += in_file->bytes;
    pool.Grow(piece);
    return pool.Take(bytes, stream);
  }
  MarkTable marks_;
  uint64_t next_ = uint64_t{1} << 40;
};

TEST_F(HostPoolTest, FreedMemoryIsItsStreamsAtOnceAndOthersWhenTheStreamIsThere) {
  HostPool pool = Make(2 * kMebibyte);
  const auto block = Allocate(pool, 2 * kMebibyte, kStream);
  ASSERT_TRUE(block);
  EXPECT_EQ(pool.used(), 2 * kMebibyte);
  const uint64_t mark = marks_.Open();
  ASSERT_TRUE(pool.Free(block->base, kStream, mark));
  EXPECT_FALSE(pool.Free(block->base, kStream, mark)) << "it is free";
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_FALSE(pool.Take(100, kOther)) << "the stream has yet to come to the free";
  EXPECT_TRUE(pool.waits_for(kStream));
  EXPECT_TRUE(pool.Shrink(0).empty()) << "nor may the memory go";
  EXPECT_FALSE(pool.Take(kMebibyte, kStream)) << "a part of it is as little the stream's as anyone's";
  const auto again = pool.Take(2 * kMebibyte, kStream);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->base, block->base);
  EXPECT_FALSE(pool.waits());

  const uint64_t second = marks_.Open();
  ASSERT_TRUE(pool.Free(block->base, kStream, second));
  marks_.Pass(mark, CUDA_SUCCESS);  // of the first free, which is over
  EXPECT_FALSE(pool.Take(100, kOther));
  marks_.Pass(second, CUDA_SUCCESS);
  EXPECT_TRUE(pool.Take(100, kOther));
}

TEST_F(HostPoolTest, AFreeBehindFailedWorkIsNone) {
  HostPool pool = Make(2 * kMebibyte);
  const auto block = Allocate(pool, 2 * kMebibyte, kStream);
  const uint64_t mark = marks_.Open();
  ASSERT_TRUE(pool.Free(block->base, kStream, mark));
  marks_.Pass(mark, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_FALSE(pool.Take(100, kOther));
  EXPECT_FALSE(pool.Take(2 * kMebibyte, kStream));
  EXPECT_FALSE(pool.waits());
  EXPECT_TRUE(pool.Shrink(0).empty());
  EXPECT_TRUE(pool.EndContext(HandleId(8)).empty()) << "nobody has the block";
  EXPECT_TRUE(pool.empty());
  EXPECT_TRUE(Allocate(pool, 2 * kMebibyte, kOther));
}

TEST_F(HostPoolTest, APoolGrowsToItsBoundAlsoWhileMemoryLeaves) {
  HostPool pool = Make(4 * kMebibyte);
  EXPECT_FALSE(Allocate(pool, 5 * kMebibyte, kStream));
  EXPECT_FALSE(pool.BeginGrowth(UINT64_MAX));
  std::vector<HostPool::Piece> leaving;
  for (int round = 0; round < 2; ++round) {
    const auto block = Allocate(pool, 4 * kMebibyte, kStream);
    ASSERT_TRUE(block) << round;
    EXPECT_FALSE(Allocate(pool, 1, kStream));
    pool.FreeNow(block->base);
    const auto gone = pool.Shrink(0);
    ASSERT_EQ(gone.size(), 1u);
    leaving.push_back(gone[0]);
    EXPECT_EQ(pool.reserved(), 0u);
  }
  EXPECT_FALSE(leaving[0].in_file.contains(leaving[1].in_file.base)) << "both are in use still";
  EXPECT_FALSE(pool.BeginGrowth(1)) << "there is no room in the file";
  pool.Forget(leaving[0]);
  const auto in_file = pool.BeginGrowth(1);
  ASSERT_TRUE(in_file);
  EXPECT_FALSE(pool.BeginGrowth(1)) << "what grows counts";
  pool.GiveUp(*in_file);
  EXPECT_TRUE(pool.BeginGrowth(1));
  EXPECT_EQ(pool.reserved_high(), 4 * kMebibyte);
}

TEST_F(HostPoolTest, ShrinkingLeavesWhatIsUsedAndWhatIsToBeKept) {
  HostPool pool = Make(1024 * kMebibyte);
  const auto first = Allocate(pool, HostPool::kGrowthBytes, kStream);
  const auto second = Allocate(pool, HostPool::kGrowthBytes, kStream);
  const auto third = Allocate(pool, HostPool::kGrowthBytes, kStream);
  pool.FreeNow(first->base);
  pool.FreeNow(third->base);
  EXPECT_EQ(pool.Shrink(2 * HostPool::kGrowthBytes).size(), 1u);
  EXPECT_EQ(pool.reserved(), 2 * HostPool::kGrowthBytes);
  EXPECT_EQ(pool.Shrink(0).size(), 1u);
  EXPECT_EQ(pool.reserved(), HostPool::kGrowthBytes);
  EXPECT_TRUE(pool.Locate(second->base));
  EXPECT_FALSE(pool.Locate(first->base));
}

TEST_F(HostPoolTest, MemoryEndsWithItsContext) {
  HostPool pool = Make(1024 * kMebibyte);
  const auto first = Allocate(pool, HostPool::kGrowthBytes, kStream, HandleId(8));
  const auto second = Allocate(pool, HostPool::kGrowthBytes, kStream, HandleId(16));
  const auto freed = Allocate(pool, HostPool::kGrowthBytes, kStream, HandleId(8));
  ASSERT_TRUE(pool.Free(freed->base, kStream, marks_.Open()));
  EXPECT_EQ(pool.EndContext(HandleId(8)), std::vector<uint64_t>{first->base});
  EXPECT_EQ(pool.used(), HostPool::kGrowthBytes);
  EXPECT_EQ(pool.reserved(), HostPool::kGrowthBytes);
  EXPECT_FALSE(pool.waits());
  EXPECT_FALSE(pool.Free(first->base, kStream, 1));
  EXPECT_TRUE(pool.Free(second->base, kStream, 1));
}

TEST(HostFileTest, NamesItsRangesToOthersAndTakesNothingElse) {
  Result<HostFile> file = HostFile::Create(HostFile::Kind::kPool, kMebibyte, 3);
  ASSERT_TRUE(file.ok());
  const auto opened = HostFile::Open(file->fd());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->node(), 3);
  EXPECT_EQ(opened->id(), file->id());
  PoolPointer pointer;
  pointer.id = file->id();
  pointer.offset = HostFile::kDataOffset + 512;
  pointer.bytes = 100;
  EXPECT_EQ(opened->RangeOf(pointer), (Range{HostFile::kDataOffset + 512, 100}));
  const auto refused = [&](auto change) {
    PoolPointer changed = pointer;
    change(changed);
    return !opened->RangeOf(changed).has_value();
  };
  EXPECT_TRUE(refused([](PoolPointer& p) { p.magic ^= 1; }));
  EXPECT_TRUE(refused([](PoolPointer& p) { p.id[3] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](PoolPointer& p) { p.bytes = 0; }));
  EXPECT_TRUE(refused([](PoolPointer& p) { p.bytes = UINT64_MAX; }));
  EXPECT_TRUE(refused([](PoolPointer& p) { p.offset = HostFile::kDataOffset - 1; }));
  EXPECT_TRUE(refused([](PoolPointer& p) { p.offset = UINT64_MAX - 10; }));
  EXPECT_TRUE(refused([](PoolPointer& p) { p.offset = HostFile::kDataOffset + 2 * kMebibyte; }));

  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int plain = memfd_create("plain", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(plain, 8 << 20), 0);
  const HostFileHeader header;
  ASSERT_EQ(pwrite(plain, &header, sizeof(header), 0), ssize_t{sizeof(header)});
  EXPECT_FALSE(HostFile::Open(-1));
  EXPECT_FALSE(HostFile::Open(null));
  EXPECT_FALSE(HostFile::Open(plain)) << "its owner could shrink it under us";
  close(null);
  close(plain);
}

}  // namespace
}  // namespace tessera
