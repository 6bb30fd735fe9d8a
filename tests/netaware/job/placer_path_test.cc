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

TEST(FindPlacer, AddressesAreTakenAsPeopleTypeThem) {
  setenv("TESSERA_PLACER", "pool.example", 1);
  EXPECT_EQ(FindPlacer("/run/placer.sock"), "unix:/run/placer.sock");
  EXPECT_EQ(FindPlacer("pool:4191"), "tls://pool:4191");
  EXPECT_EQ(FindPlacer("tls://pool"), "tls://pool:4190");
  EXPECT_EQ(FindPlacer(""), "tls://pool.example:4190");
  EXPECT_EQ(HowPlacerIsTaken(""), " ('pool.example' is taken as tls://pool.example:4190)");
  EXPECT_EQ(HowPlacerIsTaken("unix:/said"), "");
  unsetenv("TESSERA_PLACER");
  EXPECT_EQ(HowPlacerIsTaken(""), "");
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
