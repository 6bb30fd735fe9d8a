#include "netaware/admin/pool_text.h"
#include "tests/support/sizes.h"

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

// Moves a terminal's cursor, turns the direction of writing, ends a line, is no UTF-8.
const std::string kHostile = "a\x1b[2J\u202e\nb\xff";
const std::string kMadePrintable = "a?[2J??b?";

ServerList OneGpu(double granted, double others, uint64_t granted_bytes, uint64_t others_bytes) {
  ServerList list;
  control::v1::ServerState& server = *list.add_servers();
  server.set_server("gpu7");
  PoolGpuState& gpu = *server.add_gpus();
  gpu.set_model("H200");
  gpu.set_granted_share(granted);
  gpu.set_others_share(others);
  gpu.set_memory_bytes(8 * kGiB);
  gpu.set_granted_memory_bytes(granted_bytes);
  gpu.set_others_memory_bytes(others_bytes);
  return list;
}

void AddGpus(GrantPart* part, const std::string& model, int count, uint64_t memory_bytes) {
  for (int i = 0; i < count; ++i) {
    control::v1::GrantGpu& gpu = *part->add_gpus();
    gpu.set_model(model);
    gpu.set_share(0.5);
    gpu.set_memory_bytes(memory_bytes);
  }
}

TEST(PoolText, AnEmptyListIsItsHead) {
  EXPECT_EQ(ServersText({}, false), "SERVER  ADDRESSES  GPUS  STATE\n");
  EXPECT_EQ(GrantsText({}, true), "GRANT  STATE  HOLDER  GPUS  ASKED  UUIDS  REASON\n");
  EXPECT_EQ(GpusText({}, true).find('\n'), GpusText({}, true).size() - 1);
  EXPECT_EQ(ServersAsJson({}).dump() + GpusAsJson({}).dump() + AsJson(GrantList()).dump(),
            R"({"servers":[]}{"gpus":[]}{"grants":[]})");
}

TEST(PoolText, WhatIsFreeIsWhatIsLeft) {
  const nlohmann::json gpu = GpusAsJson(OneGpu(0.7, 0.2, kGiB, 2 * kGiB))["gpus"][0];
  EXPECT_EQ(gpu["free_share"].dump(), "0.1");
  EXPECT_EQ(gpu["free_memory_bytes"], 5 * kGiB);
  EXPECT_NE(GpusText(OneGpu(0.7, 0.2, kGiB, 2 * kGiB), false).find("0.7            0.2           0.1         1 GiB"),
            std::string::npos);
}

TEST(PoolText, NothingIsFreeWhereMoreIsTakenThanThereIs) {
  for (const ServerList& list : {OneGpu(0.7, 0.7, 8 * kGiB, kGiB), OneGpu(1, 1, 9 * kGiB, 0), OneGpu(0, 1.5, 0, 9 * kGiB)}) {
    const nlohmann::json gpu = GpusAsJson(list)["gpus"][0];
    EXPECT_EQ(gpu["free_share"], 0);
    EXPECT_EQ(gpu["free_memory_bytes"], 0);
  }
}

TEST(PoolText, GpusOfAPartThatAreAlikeAreCounted) {
  GrantState grant;
  EXPECT_EQ(GpusOf(grant), "-");
  GrantPart& first = *grant.add_parts();
  first.set_server("one");
  AddGpus(&first, "H200", 2, kGiB);
  AddGpus(&first, "H200", 1, 2 * kGiB);
  GrantPart& second = *grant.add_parts();
  second.set_server("two");
  AddGpus(&second, "H100", 1, kGiB);
  EXPECT_EQ(GpusOf(grant),
            "2 x H200 of one (0.5 of each, 1 GiB); 1 x H200 of one (0.5 of it, 2 GiB); 1 x H100 of two (0.5 of it, 1 GiB)");
}

TEST(PoolText, TextOfThePlacerIsMadePrintable) {
  ServerList servers = OneGpu(0, 0, 0, 0);
  control::v1::ServerState& server = *servers.mutable_servers(0);
  server.set_server(kHostile);
  server.add_addresses(kHostile);
  server.set_problem(kHostile);
  server.set_release(kHostile);
  server.mutable_gpus(0)->set_model(kHostile);
  server.mutable_gpus(0)->set_uuid(kHostile);
  GrantList grants;
  GrantState& grant = *grants.add_grants();
  for (std::string* text : {grant.mutable_grant(), grant.mutable_state(), grant.mutable_holder(), grant.mutable_reason(),
                            grant.mutable_asked()->add_models(), grant.add_parts()->mutable_server()})
    *text = kHostile;
  AddGpus(grant.mutable_parts(0), kHostile, 1, kGiB);
  grant.mutable_parts(0)->add_addresses(kHostile);
  grant.mutable_parts(0)->mutable_gpus(0)->set_uuid(kHostile);

  for (const std::string& text : {ServersText(servers, true), GpusText(servers, true), GrantsText(grants, true)}) {
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
    for (const char* part : {"\x1b", "\u202e", "\xff"}) EXPECT_EQ(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(ServersAsJson(servers)["servers"][0]["problem"], kMadePrintable);
  // The dump replaces nothing: text that is no UTF-8 would throw.
  for (const nlohmann::json& json : {ServersAsJson(servers), GpusAsJson(servers), AsJson(grants)}) {
    const std::string text = json.dump();
    for (const char* part : {"u001b", "\u202e", "\\n"}) EXPECT_EQ(text.find(part), std::string::npos) << text;
  }
}

TEST(PoolText, WhatWasAskedIsToldAsItWasSaid) {
  GrantList grants;
  control::v1::PlaceRequest& asked = *grants.add_grants()->mutable_asked();
  asked.set_gpus(1);
  asked.set_share(0.25);
  asked.set_limit(1);
  EXPECT_NE(GrantsText(grants, true).find("1 GPU, 0.25:1 of each  "), std::string::npos) << GrantsText(grants, true);
  EXPECT_FALSE(AsJson(grants)["grants"][0]["asked"].contains("memory_bytes"));
  asked.set_gpus(2);
  asked.set_memory_bytes(kGiB);
  asked.add_models("H100");
  asked.add_models("H200");
  asked.set_same_server(true);
  asked.set_wait_ms(0);
  EXPECT_NE(GrantsText(grants, true).find("2 GPUs, 0.25:1 of each, 1 GiB, H100 or H200, of one server  "), std::string::npos);
  EXPECT_EQ(AsJson(grants)["grants"][0]["asked"]["wait_ms"], 0);
}

}  // namespace
}  // namespace tessera
