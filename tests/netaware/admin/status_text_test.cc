#include "netaware/admin/status_text.h"
#include "tests/support/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tessera {
namespace {

using control::v1::GrantList;
using control::v1::GrantPart;
using control::v1::GrantState;
using control::v1::PoolGpuState;
using control::v1::ServerList;
using control::v1::ServerState;
using testing::HasSubstr;
using testing::Not;

ServerList Servers(int count, int gpus) {
  ServerList list;
  for (int i = 0; i < count; ++i) {
    ServerState& server = *list.add_servers();
    server.set_server("gpu" + std::to_string(i));
    for (int gpu = 0; gpu < gpus; ++gpu) {
      PoolGpuState& one = *server.add_gpus();
      one.set_model("H200");
      one.set_granted_share(0.3);
      one.set_others_share(0.1);
      one.set_memory_bytes(8 * kGiB);
      one.set_granted_memory_bytes(kGiB);
      one.set_others_memory_bytes(2 * kGiB);
    }
  }
  return list;
}

GrantList Grants(int granted, int waiting) {
  GrantList list;
  for (int i = 0; i < granted + waiting; ++i) {
    GrantState& grant = *list.add_grants();
    grant.set_grant("grant" + std::to_string(i));
    grant.set_holder("name:alice");
    grant.set_state(i < granted ? "granted" : "waiting");
    if (i >= granted) {
      grant.set_reason("it waits");
      continue;
    }
    GrantPart& part = *grant.add_parts();
    part.set_server("gpu" + std::to_string(i % 2));
    part.set_sessions(2);
    part.add_gpus()->set_model("H200");
  }
  return list;
}

size_t Lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

TEST(StatusText, SumsAreThoseOfTheGpus) {
  ServerList servers = Servers(2, 2);
  servers.mutable_servers(1)->set_problem("cordoned: its fans");
  const nlohmann::json status = StatusAsJson("unix:/p", servers, Grants(3, 1));
  EXPECT_EQ(status["schema_version"], 1);
  EXPECT_EQ(status["placer"], "unix:/p");
  const nlohmann::json& server = status["servers"][0];
  EXPECT_EQ(server["granted_share"].dump(), "0.6");
  EXPECT_EQ(server["others_share"].dump(), "0.2");
  EXPECT_EQ(server["free_share"].dump(), "1.2");
  EXPECT_EQ(server["free_memory_bytes"], 10 * kGiB);
  EXPECT_EQ(server["gpus"].size(), 2U);
  EXPECT_EQ(server["grants"], 2);
  EXPECT_EQ(server["sessions"], 4);
  const nlohmann::json& totals = status["totals"];
  EXPECT_EQ(totals["servers"], 2);
  EXPECT_EQ(totals["offered_servers"], 1);
  EXPECT_EQ(totals["gpus"], 4);
  EXPECT_EQ(totals["granted_share"].dump(), "1.2");
  EXPECT_EQ(totals["free_share"].dump(), "1.2");  // the second server's is offered to nobody
  EXPECT_EQ(totals["free_memory_bytes"], 10 * kGiB);
  EXPECT_EQ(totals["memory_bytes"], 32 * kGiB);
  EXPECT_EQ(totals["grants"], 3);
  EXPECT_EQ(totals["waiting"], 1);
  EXPECT_EQ(totals["sessions"], 6);
  EXPECT_EQ(status["grants"].size(), 3U);
  EXPECT_EQ(status["grants"][0]["sessions"], 2);
  EXPECT_EQ(status["waiting"][0]["reason"], "it waits");
  EXPECT_THAT(
      StatusText("unix:/p", servers, Grants(3, 1), false),
      HasSubstr("unix:/p: 2 servers (1 offered), 4 GPUs; of the GPUs' time 1.2 granted, 1.2 free; 10 GiB of memory free; 3 "
                "grants and 1 that waits, 6 sessions\n"));
}

TEST(StatusText, WhoWaitsComesFirst) {
  const std::string text = StatusText("unix:/p", Servers(2, 1), Grants(2, 2), false);
  EXPECT_LT(text.find("grant3"), text.find("grant0"));
  EXPECT_LT(text.find("grant2"), text.find("grant3"));
  EXPECT_THAT(text, HasSubstr("name:alice  2         1 x H200 of gpu1"));
}

TEST(StatusText, TenServersAreAScreen) {
  const std::string text = StatusText("unix:/p", Servers(10, 8), Grants(60, 7), false);
  EXPECT_EQ(Lines(text), kScreenLines);
  EXPECT_THAT(text, HasSubstr("\nand 57 more: tessera get grants\n"));
  for (const char* waits : {"grant60 ", "grant66 "}) EXPECT_THAT(text, HasSubstr(waits));
  EXPECT_EQ(Lines(StatusText("unix:/p", Servers(10, 8), Grants(11, 0), false)), kScreenLines);
  EXPECT_THAT(StatusText("unix:/p", Servers(10, 8), Grants(11, 0), false), Not(HasSubstr("more")));
  const std::string wide = StatusText("unix:/p", Servers(10, 8), Grants(60, 7), true);
  EXPECT_EQ(Lines(wide), 1U + 11 + 81 + 68);
}

TEST(StatusText, APoolOfNothing) {
  EXPECT_EQ(Lines(StatusText("unix:/p", {}, {}, true)), 3U);
  EXPECT_EQ(StatusAsJson("unix:/p", {}, {})["totals"]["free_share"], 0.0);
}

TEST(StatusText, NothingOfThePlacerReachesTheTerminal) {
  ServerList servers = Servers(1, 1);
  servers.mutable_servers(0)->set_server("a\x1b[2J\nb\xff");
  servers.mutable_servers(0)->set_problem("c\x1b[2J");
  GrantList grants = Grants(1, 1);
  for (GrantState& grant : *grants.mutable_grants()) {
    grant.set_holder("h\x1b[2J");
    grant.set_reason(std::string(5000, 'x') + "\x1b");
  }
  for (const bool wide : {false, true}) EXPECT_THAT(StatusText("unix:/p\x1b", servers, grants, wide), Not(HasSubstr("\x1b")));
  EXPECT_THAT(StatusAsJson("unix:/p\x1b", servers, grants).dump(), Not(HasSubstr("u001b")));
}

}  // namespace
}  // namespace tessera
