#include "client-stub/managed/shared_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace tessera {
namespace {

constexpr uint64_t kPages = 64;

// Address space that the process keeps free, as the device window is.
class SharedPagesTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const base = mmap(nullptr, kPages * kManagedPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(MAP_FAILED, base);
    view_ = Range{reinterpret_cast<uint64_t>(base), kPages * kManagedPageBytes};
    auto mapped = SharedPages::Map(view_);
    ASSERT_TRUE(mapped.ok()) << mapped.status().message();
    pages_ = std::move(mapped).value();
  }
  Range Pages(uint64_t first, uint64_t count) const {
    return Range{view_.base + first * kManagedPageBytes, count * kManagedPageBytes};
  }
  static char* At(const Range& range) { return reinterpret_cast<char*>(range.base); }
  // Whether a system call can read the page: asks without a signal.
  static bool Readable(const Range& range) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    const bool readable = write(ends[1], At(range), 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
  }
  std::vector<Range> Touched(const Range& range) const {
    std::vector<Range> parts;
    pages_->ForEachTouched(range, [&](const Range& part) {
      parts.push_back(part);
      return true;
    });
    return parts;
  }

  Range view_;
  std::unique_ptr<SharedPages> pages_;
};

TEST_F(SharedPagesTest, AliasAndViewAreTheSameBytes) {
  EXPECT_FALSE(Readable(Pages(0, 1))) << "inaccessible at first";
  std::memcpy(pages_->AliasOf(view_.base + 5000), "tile", 5);
  ASSERT_TRUE(pages_->Protect(Pages(1, 1), Access::kReadWrite));
  EXPECT_STREQ("tile", At(view_) + 5000);
  At(view_)[5000] = 'T';
  EXPECT_EQ('T', static_cast<char>(*pages_->AliasOf(view_.base + 5000)));
  ASSERT_TRUE(pages_->Protect(Pages(1, 1), Access::kNone));
  EXPECT_FALSE(Readable(Pages(1, 1)));
  EXPECT_EQ('T', static_cast<char>(*pages_->AliasOf(view_.base + 5000)));
}

TEST_F(SharedPagesTest, TellsWhichPagesWereTouched) {
  EXPECT_TRUE(Touched(view_).empty());
  ASSERT_TRUE(pages_->Protect(view_, Access::kReadWrite));
  At(view_)[3 * kManagedPageBytes + 7] = 1;
  At(view_)[4 * kManagedPageBytes] = 1;
  At(view_)[63 * kManagedPageBytes] = 1;
  EXPECT_EQ((std::vector<Range>{Pages(3, 2), Pages(63, 1)}), Touched(view_));
  EXPECT_EQ((std::vector<Range>{Pages(4, 1)}), Touched(Pages(4, 10)));
  EXPECT_TRUE(Touched(Pages(5, 50)).empty());
}

TEST_F(SharedPagesTest, DiscardedPagesAreZeroAndUntouched) {
  ASSERT_TRUE(pages_->Protect(view_, Access::kReadWrite));
  std::memset(At(view_), 1, 8 * kManagedPageBytes);
  pages_->Discard(Pages(2, 3));
  EXPECT_EQ((std::vector<Range>{Pages(0, 2), Pages(5, 3)}), Touched(view_));
  EXPECT_EQ(0, At(Pages(3, 1))[0]);
  EXPECT_EQ(1, At(Pages(5, 1))[0]);
}

TEST_F(SharedPagesTest, TheViewIsKeptFreeAfterwards) {
  ASSERT_TRUE(pages_->Protect(view_, Access::kReadWrite));
  pages_.reset();
  EXPECT_FALSE(Readable(Pages(0, 1)));
  EXPECT_EQ(0, madvise(At(view_), view_.bytes, MADV_NORMAL)) << "still mapped";
}

}  // namespace
}  // namespace tessera
