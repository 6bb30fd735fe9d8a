#include "programs/cut_lines.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(CutLines, LinesFitAndShortOnesStay) {
  EXPECT_EQ(CutLines("1234567\n12\n\n12345", 5), "12345\n12\n\n12345");
  EXPECT_EQ(CutLines("1234567", 0), "1234567");
  EXPECT_EQ(CutLines("", 5), "");
}

TEST(CutLines, CharactersStayWhole) {
  EXPECT_EQ(CutLines("45 °C and more\n", 5), "45 °C\n");
  EXPECT_EQ(CutLines("äöüß", 3), "äöü");
}

}  // namespace
}  // namespace tessera
