#include "protocol/link/typed_address.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(AddressMeantBy, APathIsASocket) {
  EXPECT_EQ(AddressMeantBy("/run/tessera/tessera.sock"), "unix:/run/tessera/tessera.sock");
  EXPECT_EQ(AddressMeantBy("./gpu.sock"), "unix:./gpu.sock");
}

TEST(AddressMeantBy, AHostIsOneWithTls) {
  EXPECT_EQ(AddressMeantBy("gpu7"), "tls://gpu7:4180");
  EXPECT_EQ(AddressMeantBy("gpu7.example:4181"), "tls://gpu7.example:4181");
  EXPECT_EQ(AddressMeantBy("10.0.0.7"), "tls://10.0.0.7:4180");
  EXPECT_EQ(AddressMeantBy("::1"), "tls://[::1]:4180");
  EXPECT_EQ(AddressMeantBy("[fe80::1]"), "tls://[fe80::1]:4180");
  EXPECT_EQ(AddressMeantBy("[fe80::1]:80"), "tls://[fe80::1]:80");
}

TEST(AddressMeantBy, ASchemeNeedsNoPort) {
  EXPECT_EQ(AddressMeantBy("tls://gpu7"), "tls://gpu7:4180");
  EXPECT_EQ(AddressMeantBy("tcp://127.0.0.1"), "tcp://127.0.0.1:4180");
}

TEST(AddressMeantBy, TheServiceSaysWhichPort) {
  EXPECT_EQ(AddressMeantBy("pool", kPlacerPort), "tls://pool:4190");
  EXPECT_EQ(AddressMeantBy("::1", kControlPort), "tls://[::1]:4181");
  EXPECT_EQ(AddressMeantBy("tls://[::1]", kControlPort), "tls://[::1]:4181");
  EXPECT_EQ(AddressMeantBy("pool:1", kPlacerPort), "tls://pool:1");
  EXPECT_EQ(AddressMeantBy("/pool", kPlacerPort), "unix:/pool");
}

TEST(AddressMeantBy, WhatSaysItAllStays) {
  for (const char* address : {"unix:/a", "unix:", "unix:a", "tls://gpu7:4180", "tcp://[::1]:0"}) {
    EXPECT_EQ(AddressMeantBy(address), address);
    EXPECT_EQ(TakenAs(address, AddressMeantBy(address)), "");
  }
}

TEST(AddressMeantBy, WhatHasNoFormStays) {
  for (const char* address :
       {"",     "gopher://x", "tcp:1", "tls:gpu7",  "unix",   "gpu7:",        "gpu7:port",   "gpu7:70000",  "gpu 7",     "-x",
        "[::1", "[x]:1",      "::1]",  "gpu7,gpu8", "tls://", "tls://gpu7:x", "tcp://::1:1", "tls://gpu 7", "gpu7:1:2x", ":80"}) {
    EXPECT_EQ(AddressMeantBy(address), address);
  }
}

TEST(TakenAs, TellsBoth) { EXPECT_EQ(TakenAs("gpu7", "tls://gpu7:4180"), " ('gpu7' is taken as tls://gpu7:4180)"); }

}  // namespace
}  // namespace tessera
