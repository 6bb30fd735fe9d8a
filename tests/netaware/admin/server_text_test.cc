#include "netaware/admin/server_text.h"

#include <gtest/gtest.h>

#include <string>

#include "netaware/admin/describe_text.h"

namespace tessera {
namespace {

// Moves a terminal's cursor, ends a line, is no UTF-8.
const std::string kHostileName = "a\x1b[2J\nb\xff";
const std::string kPrintableName = "a?[2J?b?";

control::v1::ServerList OneServer(const std::string& word) {
  control::v1::ServerList list;
  control::v1::ServerState& server = *list.add_servers();
  server.set_server(word);
  server.add_addresses(word);
  server.set_problem(word);
  server.set_away(word);
  server.mutable_cordon()->set_reason(word);
  server.mutable_cordon()->set_by(word);
  for (const char* const uuid : {"GPU-1", "GPU-2"}) server.add_gpus()->set_uuid(uuid);
  server.mutable_gpus(0)->set_model(word);
  return list;
}

control::v1::GrantState OneGrant(const std::string& word, const std::string& uuid) {
  control::v1::GrantState grant;
  grant.set_grant(word);
  grant.set_holder(word);
  grant.set_state(word);
  control::v1::GrantPart& part = *grant.add_parts();
  part.set_server(word);
  part.set_sessions(3);
  control::v1::GrantGpu& gpu = *part.add_gpus();
  gpu.set_uuid(uuid);
  gpu.set_model(word);
  return grant;
}

TEST(ServerText, TimesAreInTheLargestUnitThatIsWhole) {
  EXPECT_EQ(TimeText(0), "0 s");
  EXPECT_EQ(TimeText(1'500), "1.5 s");
  EXPECT_EQ(TimeText(90'000), "90 s");
  EXPECT_EQ(TimeText(120'000), "2 min");
  EXPECT_EQ(TimeText(7'200'000), "2 h");
}

TEST(ServerText, WhenADrainEndsIsToldOrThatItDoesNot) {
  control::v1::ServerCordon cordon;
  cordon.set_by("uid:0");
  EXPECT_EQ(Describe(cordon), "(by uid:0)");
  cordon.set_reason("why");
  cordon.set_drains(true);
  EXPECT_EQ(Describe(cordon), "why (by uid:0); drains, what is there ends by itself");
  EXPECT_TRUE(CordonAsJson(&cordon).at("ends_in_ms").is_null());
  cordon.set_ends_in_ms(60'000);
  EXPECT_EQ(Describe(cordon), "why (by uid:0); drains, what is left ends in 1 min");
  EXPECT_EQ(CordonAsJson(&cordon).at("ends_in_ms"), 60'000);
  cordon.set_ends_in_ms(0);
  EXPECT_EQ(Describe(cordon), "why (by uid:0); drained");
  EXPECT_TRUE(CordonAsJson(nullptr).is_null());
}

TEST(DescribeText, AGpuHasItsGrantsAlone) {
  control::v1::GrantList grants;
  *grants.add_grants() = OneGrant("1", "GPU-1");
  *grants.add_grants() = OneGrant("2", "GPU-2");
  const control::v1::ServerList servers = OneServer("gpu7");
  for (const char* const name : {"gpu7/1", "GPU-2"}) {
    Result<nlohmann::json> gpu = GpuAsJson(servers, grants, name);
    ASSERT_TRUE(gpu.ok());
    ASSERT_EQ(gpu->at("grants").size(), 1U);
    EXPECT_EQ(gpu->at("grants")[0].at("grant"), "2");
    EXPECT_EQ(gpu->at("grants")[0].at("sessions"), 3);
  }
  Result<nlohmann::json> server = ServerAsJson(servers, grants, "gpu7");
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(server->at("gpus")[0].at("grants")[0].at("grant"), "1");
  EXPECT_EQ(server->at("gpus")[1].at("grants")[0].at("grant"), "2");
  EXPECT_EQ(ServerAsJson(servers, grants, "gpu8").status().message(),
            "there is no server 'gpu8' in the pool: the nearest name is 'gpu7'");
  EXPECT_EQ(GpuAsJson(servers, grants, "gpu7/2").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(GpuAsJson({}, grants, "x").status().message(), "there is no GPU 'x' in the pool: it has none");
}

TEST(DescribeText, AGpusPlaceInItsHostIsToldAsFarAsItIsKnown) {
  control::v1::ServerList servers = OneServer("gpu7");
  control::v1::PoolGpuState& gpu = *servers.mutable_servers(0)->mutable_gpus(1);
  const auto place = [&] {
    const std::string text = GpuText(GpuAsJson(servers, {}, "gpu7/1").value());
    const size_t from = text.find("\nplace ") + 1;
    return text.substr(from, text.find('\n', from) - from);
  };
  EXPECT_EQ(place(), "place       -");
  gpu.set_pci_group(0);
  EXPECT_EQ(place(), "place       PCIe switches of GPU 0");
  gpu.set_numa(1);
  gpu.set_pci("0000:02:00.0");
  EXPECT_EQ(place(), "place       PCIe 0000:02:00.0, NUMA node 1, PCIe switches of GPU 0");
  const std::string server = ServerText(ServerAsJson(servers, {}, "gpu7").value());
  EXPECT_NE(server.find("GPU-2, PCIe 0000:02:00.0, NUMA node 1, PCIe switches of GPU 0\n"), std::string::npos) << server;
}

TEST(DescribeText, WhatAPlacerSaysIsMadePrintable) {
  control::v1::GrantList grants;
  *grants.add_grants() = OneGrant(kHostileName, "GPU-1");
  Result<nlohmann::json> server = ServerAsJson(OneServer(kHostileName), grants, kHostileName);
  Result<nlohmann::json> gpu = GpuAsJson(OneServer(kHostileName), grants, "GPU-1");
  ASSERT_TRUE(server.ok() && gpu.ok());
  for (const std::string& text : {ServerText(*server), GpuText(*gpu), GrantText(grants.grants(0)), server->dump(),
                                  ServerAsJson(OneServer(kHostileName), grants, "y").status().message()}) {
    EXPECT_NE(text.find(kPrintableName), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\xff'), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
