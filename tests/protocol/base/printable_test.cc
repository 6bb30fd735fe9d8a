#include "protocol/base/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(PrintableTest, WhatCannotBePrintedIsAQuestionMark) {
  EXPECT_EQ(Printable("gpu7 \xc3\xa4"), "gpu7 \xc3\xa4");
  EXPECT_EQ(Printable("\xe2\x82\xac \xf0\x9f\x98\x80"), "\xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(Printable(std::string_view("a\0b\n\x1b[1m\x7f", 9)), "a?b??[1m?");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "1m"),
            "?1m");  // CSI as one character
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b\xe2\x81\xa6"
                      "c"),
            "a?b?c");  // from right to left
  EXPECT_EQ(Printable("a\xe2\x80\xa8"
                      "b"),
            "a?b");  // a line's end
}

TEST(PrintableTest, WhatIsNoUtf8IsAQuestionMarkForEachByte) {
  EXPECT_EQ(Printable("a\xff\xfe"
                      "b"),
            "a??b");
  EXPECT_EQ(Printable("\x9b"
                      "1m"),
            "?1m");                                  // CSI of eight bits
  EXPECT_EQ(Printable("\xc0\x9b"), "??");            // longer than it need be
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???");       // half of a pair
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "????");  // beyond the last character
  EXPECT_EQ(Printable("\xe2\x82"), "??");            // cut off
  EXPECT_EQ(Printable("\xe2\x1b[m"), "??[m");        // hides nothing behind it
}

TEST(PrintableTest, WhatIsVeryLongIsCut) {
  EXPECT_EQ(Printable(std::string(100'000, 'x')), std::string(200, 'x'));
  EXPECT_EQ(Printable("abc\xc3\xa4", 4), "abc");
  EXPECT_EQ(Printable("abc\xc3\xa4", 5), "abc\xc3\xa4");
}

}  // namespace
}  // namespace tessera
