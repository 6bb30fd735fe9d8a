#include "protocol/base/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(PrintableTest, WhatCannotBePrintedIsAQuestionMark) {
  EXPECT_EQ(Printable("gpu7 \xc3\xa4"), "gpu7 \xc3\xa4");
  EXPECT_EQ(Printable(std::string_view("a\0b\n\x1b[1m\x7f", 9)), "a?b??[1m?");
}

TEST(PrintableTest, WhatIsVeryLongIsCut) { EXPECT_EQ(Printable(std::string(100'000, 'x')), std::string(200, 'x')); }

}  // namespace
}  // namespace tessera
