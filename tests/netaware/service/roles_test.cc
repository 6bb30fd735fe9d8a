#include "netaware/service/roles.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "netaware/service/roles_file.h"
#include "protocol/base/clock.h"
#include "protocol/base/small_file.h"

namespace tessera {
namespace {

TEST(Roles, AreThoseOfTheFile) {
  Result<Roles> roles = Roles::Parse(
      "[roles]\n\"name:gpu7\" = \"server\"\n\"uid:7\" = \"admin\"\n\"name:w\" = \"viewer\"\nothers = \"nobody\"\n", "f");
  ASSERT_TRUE(roles.ok()) << roles.status().message();
  EXPECT_TRUE(roles->MayJoin("name:gpu7"));
  EXPECT_FALSE(roles->MayAsk("name:gpu7"));
  EXPECT_TRUE(roles->MayAsk("uid:7") && roles->MayJoin("uid:7") && roles->SeesAll("uid:7") && roles->MayEndAll("uid:7"));
  EXPECT_TRUE(roles->SeesAll("name:w"));
  EXPECT_FALSE(roles->MayAsk("name:w") || roles->MayEndAll("name:w"));
  EXPECT_FALSE(roles->MayAsk("name:bob"));
  EXPECT_TRUE(Roles::Parse("", "f")->MayAsk("name:bob"));
  EXPECT_EQ(roles->StandingOf("name:gpu7"), Standing::kTrusted);
  EXPECT_EQ(roles->StandingOf("uid:7"), Standing::kTrusted);
  EXPECT_EQ(roles->StandingOf("name:w"), Standing::kUsual);
  EXPECT_EQ(roles->StandingOf("name:bob"), Standing::kNobody);
  EXPECT_EQ(Roles::Parse("", "f")->StandingOf("name:bob"), Standing::kUsual);
}

TEST(Roles, AServerThatIsNamedIsNobodyElse) {
  Result<Roles> roles = Roles::Parse(
      "[roles]\n\"name:gpu7.a\" = \"server\"\n\"name:gpu7.b\" = \"server\"\n\"name:gpu8\" = \"server\"\n\"uid:7\" = \"admin\"\n"
      "\"name:alice\" = \"tenant\"\n\"uid:8\" = \"server\"\n",
      "f");
  ASSERT_TRUE(roles.ok()) << roles.status().message();
  EXPECT_TRUE(roles->MayBeServer("name:gpu7.a", "gpu7.a"));
  EXPECT_TRUE(roles->MayBeServer("name:gpu7.a", "gpu7") && roles->MayBeServer("name:gpu7.b", "gpu7"));
  EXPECT_TRUE(roles->MayBeServer("name:gpu8", "gpu9"));  // no line names them
  EXPECT_TRUE(roles->MayBeServer("name:gpu8", "alice"));
  EXPECT_TRUE(roles->MayBeServer("name:gpu8", "gpu"));
  EXPECT_TRUE(roles->MayBeServer("uid:7", "gpu8"));
  EXPECT_FALSE(roles->MayBeServer("name:gpu8", "gpu7"));
  EXPECT_FALSE(roles->MayBeServer("name:gpu8", "gpu7.a") || roles->MayBeServer("name:gpu7.b", "gpu7.a"));
  EXPECT_FALSE(roles->MayBeServer("uid:8", "gpu8") || roles->MayBeServer("anonymous", "gpu8"));
}

TEST(Roles, AUserHasTheNameThatHeIsGivenAndItsRole) {
  Result<Roles> roles = Roles::Parse(
      "[users]\n\"uid:7\" = \"name:alice\"\n\"uid:8\" = \"name:alice\"\n[roles]\n"
      "\"name:alice\" = \"admin\"\n\"uid:8\" = \"viewer\"\nothers = \"nobody\"\n",
      "f");
  ASSERT_TRUE(roles.ok()) << roles.status().message();
  EXPECT_EQ(roles->NamedBy("uid:7"), "name:alice");
  EXPECT_EQ(roles->NamedBy("uid:9"), "uid:9");
  EXPECT_EQ(roles->RoleOf("uid:7"), Role::kAdmin);
  EXPECT_EQ(roles->RoleOf("uid:8"), Role::kViewer);
  EXPECT_EQ(roles->RoleOf("uid:9"), Role::kNobody);
}

TEST(Roles, ToBeProtectedIsARightOfItsOwn) {
  Result<Roles> roles = Roles::Parse(
      "[users]\n\"uid:7\" = \"name:alice\"\n[roles]\n\"name:root\" = \"admin\"\n"
      "[rights]\n\"name:alice\" = [\"protected\"]\n\"uid:8\" = ['protected']\n\"name:bob\" = []\n",
      "f");
  ASSERT_TRUE(roles.ok()) << roles.status().message();
  for (const char* with : {"name:alice", "uid:7", "uid:8", "name:root"}) EXPECT_TRUE(roles->MayBeProtected(with)) << with;
  for (const char* without : {"name:bob", "uid:9"}) EXPECT_FALSE(roles->MayBeProtected(without)) << without;
}

TEST(Roles, WhatIsWrongNamesFileAndLine) {
  for (const auto& [text, line] : {std::pair("[roles]\n\"name:a\" = \"king\"\n", "f, line 2"),
                                   {"[roles]\n\"name:a\" = 3\n", "f, line 2"},
                                   {"[roles]\n\n\"somebody\" = \"tenant\"\n", "f, line 3"},
                                   {"[users]\n\"uid:1\" = \"alice\"\n", "f, line 2"},
                                   {"[users]\n\"uid:1\" = \"uid:2\"\n", "f, line 2"},
                                   {"[users]\n\"uid:01\" = \"name:a\"\n", "f, line 2"},
                                   {"[users]\n\"name:a\" = \"name:b\"\n", "f, line 2"},
                                   {"[users]\n\"uid:1\" = 3\n", "f, line 2"},
                                   {"users = 3\n", "f, line 1"},
                                   {"[rights]\n\"name:a\" = \"protected\"\n", "f, line 2"},
                                   {"[rights]\n\"name:a\" = [\"king\"]\n", "f, line 2"},
                                   {"[rights]\nothers = [\"protected\"]\n", "f, line 2"},
                                   {"[quotas]\na = 1\n", "f, line 1"},
                                   {"[roles]\nothers = \"admin\"\n", "f, line 2"},
                                   {"[roles\n", "f, line 1"},
                                   {"roles = 3\n", "f, line 1"}}) {
    Result<Roles> roles = Roles::Parse(text, "f");
    ASSERT_FALSE(roles.ok()) << text;
    EXPECT_NE(roles.status().message().find(line), std::string::npos) << roles.status().message();
  }
}

TEST(RolesFile, IsReadAgainAndABrokenOneChangesNothing) {
  const std::string path = testing::TempDir() + "roles.toml";
  std::ofstream(path) << "[roles]\n\"name:a\" = \"server\"\n";
  Result<std::unique_ptr<RolesFile>> file = RolesFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Current()->MayJoin("name:a"));
  EXPECT_TRUE((*file)->Current()->MayJoin("uid:0"));
  std::vector<std::string> told;
  (*file)->SetTold([&](const Status& status) { told.push_back(status.message()); });
  std::ofstream(path) << "[roles]\n\"name:a\" = \"ser";
  EXPECT_TRUE((*file)->Current()->MayJoin("name:a"));
  std::ofstream(path) << "[roles]\n\"name:a\" = \"tenant\"\n";
  EXPECT_FALSE((*file)->Current()->MayJoin("name:a"));
  ASSERT_EQ(told.size(), 2U);  // not of each look at it
  EXPECT_NE(told[0].find("line 2"), std::string::npos) << told[0];
  EXPECT_EQ(told[1], "");
  EXPECT_FALSE(RolesFile::Open(path + "-none").ok());
}

// A process in a sandbox has a helper open it, and does not ask that one for each call.
TEST(RolesFile, IsReadByWhoHasItOpened) {
  const std::string path = testing::TempDir() + "roles_by_helper.toml";
  std::ofstream(path) << "[roles]\n\"name:a\" = \"server\"\n";
  uint64_t opened = 0;
  const uint64_t begin_ns = MonotonicNs();
  Result<std::unique_ptr<RolesFile>> file = RolesFile::Open(path, [&](const std::string& wanted) {
    EXPECT_EQ(wanted, path);
    ++opened;
    return OpenSmallFile(wanted);
  });
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE((*file)->Current()->MayJoin("name:a"));
  EXPECT_LE(opened, 2 + (MonotonicNs() - begin_ns) / RolesFile::kLookNs);
  std::ofstream(path) << "[roles]\n\"name:a\" = \"tenant\"\n";
  const uint64_t end_ns = MonotonicNs() + 10'000'000'000;
  while ((*file)->Current()->MayJoin("name:a") && MonotonicNs() < end_ns) usleep(1'000);
  EXPECT_FALSE((*file)->Current()->MayJoin("name:a"));
  std::filesystem::remove(path);
  for (const uint64_t before = opened; opened == before && MonotonicNs() < end_ns;)
    EXPECT_FALSE((*file)->Current()->MayJoin("name:a"));
}

}  // namespace
}  // namespace tessera
