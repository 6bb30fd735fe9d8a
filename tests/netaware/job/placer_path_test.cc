#include "netaware/job/placer_path.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tessera {
namespace {

TEST(FindPlacer, WhatIsSaidComesBeforeTheEnvironment) {
  setenv("TESSERA_PLACER", "unix:/of-the-environment", 1);
  EXPECT_EQ(FindPlacer("unix:/said"), "unix:/said");
  EXPECT_EQ(FindPlacer(""), "unix:/of-the-environment");
}

TEST(FindPlacer, ThereIsNoneWhereNobodyListens) {
  setenv("TESSERA_SOCKET_DIR", "/nonexistent", 1);
  setenv("TESSERA_PLACER", "", 1);
  EXPECT_EQ(FindPlacer(""), "");
  unsetenv("TESSERA_PLACER");
  EXPECT_EQ(FindPlacer(""), "");
}

}  // namespace
}  // namespace tessera
