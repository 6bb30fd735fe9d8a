#include "protocol/base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

TEST(NearestName, IsTheOneWithTheFewestChanges) {
  EXPECT_EQ(NearestName("gpu8", {"rack", "gpu7", "gpu17"}), "gpu7");
  EXPECT_EQ(NearestName("gp7", {"gpus", "gpu7"}), "gpu7");    // one is put in
  EXPECT_EQ(NearestName("gpuu7x", {"abc", "gpu7"}), "gpu7");  // two are taken out
  EXPECT_EQ(NearestName("gpu3", {"gpu2", "gpu4"}), "gpu2");   // equally near: the first
  EXPECT_EQ(NearestName("", {"gpu77", "gpu7"}), "gpu7");
  EXPECT_EQ(NearestName("gpu7", {}), "");
  EXPECT_EQ(NearestName("x" + std::string(100'000, 'a'), {"y", std::string_view("x")}), "x");
}

}  // namespace
}  // namespace tessera
