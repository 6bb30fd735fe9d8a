#include "server/worker/code/variable_bytes.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(VariableBytesTest, SumsWhatPtxDeclares) {
  EXPECT_EQ(PtxVariableBytes(""), 0u);
  EXPECT_EQ(PtxVariableBytes(".visible .global .align 4 .f32 one;\n"), 4u);
  EXPECT_EQ(PtxVariableBytes(".global .align 16 .b8 table[10737418240];"), uint64_t{10} << 30);
  EXPECT_EQ(PtxVariableBytes(".global .align 8 .u64 grid[3][0x10];"), 3u * 16 * 8);
  EXPECT_EQ(PtxVariableBytes(".global .align 16 .v4 .f32 quad[2];\n.weak .global .b16 half = 3;"), 32u + 2);
  EXPECT_EQ(PtxVariableBytes(".global .attribute(.managed) .align 4 .b8 shared_with_host[12];"), 12u);
  EXPECT_EQ(PtxVariableBytes(".global .align 4 .u32 numbers[4] = {1, 2, 3, 4};"), 16u);
}

TEST(VariableBytesTest, CountsNothingElse) {
  EXPECT_EQ(PtxVariableBytes(".extern .global .align 4 .b8 elsewhere[4096];"), 0u);
  EXPECT_EQ(PtxVariableBytes("ld.global.u32 %r1, [%rd1];\nst.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};\n"
                             "cvta.to.global.u64 %rd3, %rd4;"),
            0u);
  EXPECT_EQ(PtxVariableBytes(".const .align 4 .b8 fixed[4096];\n.shared .b8 tile[1024];"), 0u);
  EXPECT_EQ(PtxVariableBytes(".global"), 0u);
  EXPECT_EQ(PtxVariableBytes(".global .b8 huge[18446744073709551615][2];"), UINT64_MAX);
}

TEST(VariableBytesTest, OfEachPartThatFits) {
  const std::string_view text = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .b8 table[4096];\n";
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  EXPECT_EQ(BytesOfImage({part}, 90).variables, 4096u);
  EXPECT_EQ(BytesOfImage({part, part}, 90).variables, 2u * 4096);
  EXPECT_GE(BytesOfImage({part, part}, 90).code, 2 * text.size());
  const std::string_view none = "no image";
  EXPECT_EQ(BytesOfImage({std::as_bytes(std::span(none))}, 90).variables, 0u);
  EXPECT_GE(BytesOfImage({std::as_bytes(std::span(none))}, 90).code, none.size());
}

}  // namespace
}  // namespace tessera
