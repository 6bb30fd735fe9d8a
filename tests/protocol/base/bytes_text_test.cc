#include "protocol/base/bytes_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(BytesTextTest, ReadsWhatPeopleWrite) {
  const std::pair<const char*, uint64_t> good[] = {
      {"0", 0},       {"8589934592", uint64_t{8} << 30}, {"8GiB", uint64_t{8} << 30},         {"512 MiB", uint64_t{512} << 20},
      {"3KiB", 3072}, {"2TiB", uint64_t{2} << 40},       {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, wanted] : good) {
    uint64_t bytes = 1;
    EXPECT_TRUE(ParseBytes(text, &bytes)) << text;
    EXPECT_EQ(bytes, wanted) << text;
  }
  for (const char* bad :
       {"", "GiB", "-1", "8GB", "8 G", "8  GiB", "8GiB ", " 8", "1.5GiB", "18446744073709551616", "16777216TiB"}) {
    uint64_t bytes = 7;
    EXPECT_FALSE(ParseBytes(bad, &bytes)) << bad;
    EXPECT_EQ(bytes, 7u) << bad;
  }
}

TEST(BytesTextTest, WritesWithoutRounding) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(1000), "1000 bytes");
  EXPECT_EQ(BytesText(uint64_t{8} << 30), "8 GiB");
  EXPECT_EQ(BytesText((uint64_t{8} << 30) + (uint64_t{256} << 20)), "8.25 GiB");
  EXPECT_EQ(BytesText((uint64_t{8} << 30) - (uint64_t{2} << 20)), "8190 MiB");
  EXPECT_EQ(BytesText((uint64_t{8} << 30) + 1), "8589934593 bytes");
}

}  // namespace
}  // namespace tessera
