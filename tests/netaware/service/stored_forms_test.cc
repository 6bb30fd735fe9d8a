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
  grant.ask.wish = {.gpus = 2,
                    .share = 300'000,
                    .memory_bytes = 1 << 30,
                    .processes = 3,
                    .models = {"H100", "A100"},
                    .same_server = true,
                    .isolation = "packed",
                    .priority = "protected"};
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
  const PoolServer server{.id = "gpu7",
                          .addresses = {"tls://gpu7:4180", "unix:/s"},
                          .gpus = {{.uuid = "GPU-1",
                                    .model = "H100",
                                    .all = {kWholeShare, 80},
                                    .context_bytes = 5,
                                    .kept_share = 7,
                                    .isolations = {"packed"},
                                    .priorities = {"normal", "protected"},
                                    .pci = "0000:02:00.0",
                                    .numa = 1}},
                          .holder = "name:gpu7"};
  Result<KeptServer> read = ReadServer(StoredServer(server, "host"));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->is.holder, "name:gpu7");
  EXPECT_EQ(read->is.id, server.id);
  EXPECT_EQ(read->host, "host");
  EXPECT_EQ(read->is.addresses, server.addresses);
  ASSERT_EQ(read->is.gpus.size(), 1U);
  EXPECT_EQ(read->is.gpus[0].all, server.gpus[0].all);
  EXPECT_EQ(read->is.gpus[0].context_bytes, 5U);
  EXPECT_EQ(read->is.gpus[0].kept_share, 7U);
  EXPECT_EQ(read->is.gpus[0].isolations, (std::vector<std::string>{"packed"}));
  EXPECT_EQ(read->is.gpus[0].priorities, (std::vector<std::string>{"normal", "protected"}));
  EXPECT_EQ(read->is.gpus[0].pci, "0000:02:00.0");
  EXPECT_EQ(read->is.gpus[0].numa, 1U);
  EXPECT_FALSE(read->is.gpus[0].pci_group.has_value());
  EXPECT_FALSE(read->cordon.has_value());
  NoPrefixAndDamage(StoredServer(server, "host"), ReadServer);
}

TEST(StoredForms, ACordonIsReadWithItsServer) {
  const PoolServer server{.id = "gpu7", .addresses = {"unix:/s"}, .gpus = {{.uuid = "GPU-1", .model = "H100"}}};
  for (const ServerCordon& cordon :
       {ServerCordon{.reason = "its fans are changed", .by = "name:boss"}, ServerCordon{.by = "uid:0", .drains = true},
        ServerCordon{.reason = "x", .by = "uid:0", .drains = true, .ends_ms = 1'700'000'000'000}}) {
    Result<KeptServer> read = ReadServer(StoredServer(server, "host", &cordon));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->is.id, "gpu7");
    EXPECT_EQ(read->cordon, cordon);
    NoPrefixAndDamage(StoredServer(server, "host", &cordon), ReadServer);
  }
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
