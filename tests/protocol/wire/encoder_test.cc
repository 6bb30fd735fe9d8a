#include "protocol/wire/encoder.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "protocol/wire/decoder.h"
#include "protocol/wire/record.h"

namespace tessera {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

void WriteSample(Encoder& out) {
  out.Pod<uint8_t>(7);
  out.Pod<uint64_t>(0x1122334455667788);
  out.String("name");
  out.Bytes(AsBytes("some bytes"));
  out.Pod(true);
}

// Whether all of the sample was there and right.
bool ReadSample(std::span<const std::byte> bytes) {
  Decoder in(bytes);
  const auto small = in.Pod<uint8_t>();
  const auto large = in.Pod<uint64_t>();
  const std::string_view name = in.String(16);
  const auto blob = in.Bytes(16);
  const bool flag = in.Pod<bool>();
  if (!in.ok()) {
    EXPECT_FALSE(flag);  // the last read came after the failure
    return false;
  }
  return small == 7 && large == 0x1122334455667788 && name == "name" &&
         std::string_view(reinterpret_cast<const char*>(blob.data()), blob.size()) == "some bytes" && flag && in.AtEnd();
}

TEST(Encoder, WritesWithoutPaddingWhatTheDecoderReads) {
  Encoder out;
  WriteSample(out);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out.size(), 1 + 8 + 4 + 4 + 8 + 10 + 1u);
  EXPECT_TRUE(ReadSample(out.bytes()));
}

TEST(Encoder, EveryTruncatedPrefixIsRefused) {
  Encoder out;
  WriteSample(out);
  for (size_t size = 0; size < out.size(); ++size) {
    const std::vector<std::byte> prefix(out.bytes().begin(), out.bytes().begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(ReadSample(prefix)) << "prefix of " << size;
  }
}

TEST(Encoder, FixedSpanOverflowsAtEverySizeThatIsTooSmall) {
  Encoder whole;
  WriteSample(whole);
  std::array<std::byte, 64> memory{};
  for (size_t size = 0; size <= whole.size(); ++size) {
    memory.fill(std::byte{0xee});
    Encoder out(std::span<std::byte>(memory).first(size));
    WriteSample(out);
    EXPECT_EQ(out.ok(), size == whole.size());
    EXPECT_EQ(out.bytes().size(), out.ok() ? whole.size() : 0);
    for (size_t i = size; i < memory.size(); ++i) ASSERT_EQ(memory[i], std::byte{0xee}) << "wrote beyond " << size;
    out.Clear();
    EXPECT_TRUE(out.ok());
    EXPECT_EQ(out.Append(size) == nullptr, false);
    EXPECT_EQ(out.Append(1), nullptr);
  }
}

TEST(Encoder, GrowsUpToItsBoundAndRecovers) {
  Encoder out(10'000);
  const std::vector<std::byte> chunk(1000, std::byte{3});
  for (int i = 0; i < 10; ++i) out.Raw(chunk);
  EXPECT_TRUE(out.ok());
  EXPECT_EQ(out.bytes().size(), 10'000u);
  out.Pod<uint8_t>(1);
  EXPECT_FALSE(out.ok());
  EXPECT_TRUE(out.bytes().empty());
  out.Pod<uint8_t>(1);
  EXPECT_FALSE(out.ok());
  out.Clear();
  WriteSample(out);
  EXPECT_TRUE(ReadSample(out.bytes()));
}

TEST(Encoder, AlignsWithZeros) {
  Encoder out;
  out.Pod<uint8_t>(0xff);
  out.AlignTo(kRecordAlignment);
  out.AlignTo(kRecordAlignment);
  ASSERT_EQ(out.size(), 8u);
  Decoder in(out.bytes());
  in.Pod<uint8_t>();
  EXPECT_TRUE(in.AtEnd());
}

TEST(Decoder, LengthsAreCheckedAgainstBoundAndRest) {
  Encoder out;
  out.Pod<uint64_t>(UINT64_MAX);
  out.Raw(AsBytes("abc"));
  Decoder in(out.bytes());
  EXPECT_TRUE(in.Bytes(Decoder::kWhatRemains).empty());
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.remaining(), 0u);

  Encoder text;
  text.String("abcdef");
  EXPECT_EQ(Decoder(text.bytes()).String(6), "abcdef");
  Decoder too_long(text.bytes());
  EXPECT_EQ(too_long.String(5), "");
  EXPECT_FALSE(too_long.ok());
}

TEST(Decoder, CountsAreBoundedByWhatRemains) {
  Encoder out;
  out.Pod<uint32_t>(1000);
  out.Pod<uint64_t>(1);
  Decoder in(out.bytes());
  EXPECT_EQ(in.CountOf(1'000'000, 8), 0u);
  EXPECT_FALSE(in.ok());
  Decoder fits(out.bytes());
  EXPECT_EQ(fits.CountOf(1000, 0), 1000u);
}

TEST(Decoder, ABoolIsZeroOrOne) {
  const std::byte two{2};
  Decoder in(std::span(&two, 1));
  EXPECT_FALSE(in.Pod<bool>());
  EXPECT_FALSE(in.ok());
}

TEST(Decoder, EndToleratesOnlyZeroPaddingBelowEightBytes) {
  std::array<std::byte, 8> rest{};
  EXPECT_TRUE(Decoder(std::span(rest).first(7)).AtEnd());
  EXPECT_FALSE(Decoder(rest).AtEnd());
  rest[2] = std::byte{1};
  EXPECT_FALSE(Decoder(std::span(rest).first(7)).AtEnd());
}

}  // namespace
}  // namespace tessera
