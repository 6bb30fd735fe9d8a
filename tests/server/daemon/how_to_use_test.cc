#include "server/daemon/how_to_use.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(HowToUse, TheDefaultSocketNeedsNoName) {
  EXPECT_EQ(HowToUse("/run/tessera/tessera.sock", true, {}, "gpu7"), "; here: tessera run -- PROGRAM");
  EXPECT_EQ(HowToUse("/srv/gpu.sock", false, {}, "gpu7"), "; here: tessera run --server unix:/srv/gpu.sock -- PROGRAM");
}

TEST(HowToUse, OtherHostsNameTheGateway) {
  EXPECT_EQ(HowToUse("/run/tessera/tessera.sock", true, {"tls://10.0.0.7:4180"}, "gpu7"),
            "; here: tessera run -- PROGRAM; on other hosts: tessera run --server tls://10.0.0.7:4180 -- PROGRAM");
}

TEST(HowToUse, NobodyConnectsToAllAddresses) {
  for (const char* url : {"tls://0.0.0.0:4180", "tls://[::]:4180"}) {
    EXPECT_NE(HowToUse("/s", true, {url}, "gpu7").find("--server tls://gpu7:4180 --"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
