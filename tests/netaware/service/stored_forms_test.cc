#include <gtest/gtest.h>

#include <random>

#include "netaware/service/placed_grant.h"
#include "netaware/service/pool_server.h"
#include "protocol/ticket/gpu_uuid.h"

namespace tessera {
namespace {

PlacedGrant Sample() {
  PlacedGrant grant;
  grant.ask = {.id = {std::byte{7}}, .holder = "name:alice", .limit = 700'000, .wait_ms = 5};
  grant.ask.wish = {.gpus = 2, .share = 300'000, .memory_bytes = 1 << 30, .models = {"H100", "A100"}, .same_server = true};
  grant.request_id = "r";
  grant.parts = {{.server = "gpu7", .gpus = {{"GPU-1", "H100", 3, 1 << 30}, {"GPU-2", "H100", 0, 5}}}, {.server = "gpu8"}};
  return grant;
}

template <typename Read>
void NoPrefixAndDamage(const std::string& whole, Read read) {
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read(whole.substr(0, size)).ok()) << size;
  EXPECT_FALSE(read(whole + "x").ok());
  std::mt19937 random(3);
  for (int i = 0; i < 5'000; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)read(damaged).ok();  // for the sanitizers
  }
}

TEST(StoredForms, AGrantIsReadAsItWas) {
  Result<PlacedGrant> read = ReadPlaced(StoredPlaced(Sample()));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, Sample());
  NoPrefixAndDamage(StoredPlaced(Sample()), ReadPlaced);
}

TEST(StoredForms, AServerIsReadAsItWas) {
  JoiningNode node;
  node.host = "host";
  node.server = {.id = "gpu7",
                 .addresses = {"tls://gpu7:4180", "unix:/s"},
                 .gpus = {{.uuid = "GPU-1", .model = "H100", .all = {kWholeShare, 80}, .context_bytes = 5}}};
  Result<JoiningNode> read = ReadServer(StoredServer(node));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->host, "host");
  EXPECT_EQ(read->server.id, node.server.id);
  EXPECT_EQ(read->server.addresses, node.server.addresses);
  ASSERT_EQ(read->server.gpus.size(), 1U);
  EXPECT_EQ(read->server.gpus[0].all, node.server.gpus[0].all);
  EXPECT_EQ(read->server.gpus[0].context_bytes, 5U);
  NoPrefixAndDamage(StoredServer(node), ReadServer);
}

TEST(GpuUuid, HasOneForm) {
  const auto uuid = ParseGpuUuid("GPU-00010203-0405-0607-0809-0a0B0c0d0e0f");
  ASSERT_TRUE(uuid.has_value());
  for (size_t i = 0; i < uuid->size(); ++i) EXPECT_EQ((*uuid)[i], static_cast<std::byte>(i));
  for (const char* bad : {"", "GPU-", "gpu-00010203-0405-0607-0809-0a0b0c0d0e0f", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0g",
                          "GPU-00010203-0405-0607-0809-0a0b0c0d0e0", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f0",
                          "GPU-0001020300405-0607-0809-0a0b0c0d0e0f", "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f"})
    EXPECT_FALSE(ParseGpuUuid(bad).has_value()) << bad;
}

}  // namespace
}  // namespace tessera
