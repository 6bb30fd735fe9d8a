#include "netaware/admin/doctor_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using control::v1::ServerList;
using control::v1::WhoamiAnswer;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 1'800'000'000'000;

WhoamiAnswer Answer(const std::string& role, int64_t now_ms = kNow) {
  WhoamiAnswer answer;
  answer.set_holder("name:alice");
  answer.set_role(role);
  answer.set_cluster("lab");
  answer.set_release("1.2");
  answer.set_now_ms(now_ms);
  return answer;
}

nlohmann::json Of(const std::string& subject, const WhoamiAnswer& answer, int64_t asked_ms = kNow, int64_t heard_ms = kNow,
                  const std::string& own_release = "1.2") {
  for (const nlohmann::json& finding : FindingsOf("unix:/p", answer, asked_ms, heard_ms, own_release)) {
    EXPECT_EQ(finding.contains("advice"), finding["grade"] != "good") << finding;
    if (finding["subject"] == subject) return finding;
  }
  return {};
}

TEST(DoctorText, WhoAnswers) {
  EXPECT_EQ(Of("placer", Answer("tenant"))["grade"], "good");
  EXPECT_EQ(Of("placer", Answer("tenant"))["text"], "unix:/p answers: tessera-placer 1.2 of the pool 'lab'");
  EXPECT_EQ(Of("placer", Answer("tenant"), kNow, kNow, "1.3")["grade"], "note");
}

TEST(DoctorText, WhatEachRoleMay) {
  const std::pair<const char*, const char*> grades[] = {{"admin", "good"},  {"tenant", "good"},    {"viewer", "note"},
                                                        {"server", "note"}, {"nobody", "problem"}, {"", "problem"}};
  for (const auto& [role, grade] : grades) {
    EXPECT_EQ(Of("role", Answer(role))["grade"], grade) << role;
    EXPECT_THAT(Of("role", Answer(role))["text"].get<std::string>(), HasSubstr("name:alice"));
  }
  WhoamiAnswer unknown = Answer("nobody");
  unknown.clear_holder();
  EXPECT_EQ(Of("role", unknown)["grade"], "problem");
}

TEST(DoctorText, ClocksThatAreMoreThanFiveSecondsApart) {
  for (const int64_t apart_ms : {0, 900, 4'900, -4'900})
    EXPECT_EQ(Of("clock", Answer("tenant", kNow + apart_ms))["grade"], "good");
  const nlohmann::json behind = Of("clock", Answer("tenant", kNow + 7'200));
  EXPECT_EQ(behind["grade"], "note");
  EXPECT_THAT(behind["text"].get<std::string>(), HasSubstr("this host's is 7.2 s behind the placer's"));
  EXPECT_THAT(Of("clock", Answer("tenant", kNow - 60'000))["text"].get<std::string>(), HasSubstr("60.0 s ahead of the placer's"));
  // An answer that took 4 s gives the clock as well as that.
  EXPECT_EQ(Of("clock", Answer("tenant", kNow + 6'900), kNow - 2'000, kNow + 2'000)["grade"], "good");
  EXPECT_EQ(Of("clock", Answer("tenant", kNow + 7'100), kNow - 2'000, kNow + 2'000)["grade"], "note");
}

TEST(DoctorText, ThePool) {
  ServerList servers;
  EXPECT_EQ(FindingOf(servers)["grade"], "note");
  for (const char* name : {"one", "two", "three", "four", "five"}) {
    control::v1::ServerState& server = *servers.add_servers();
    server.set_server(name);
    server.add_gpus();
  }
  EXPECT_EQ(FindingOf(servers)["grade"], "good");
  EXPECT_EQ(FindingOf(servers)["text"], "5 servers with 5 GPUs, all of them offered");
  for (int i = 0; i < 4; ++i) servers.mutable_servers(i)->set_problem("is silent");
  EXPECT_EQ(FindingOf(servers)["grade"], "note");
  EXPECT_EQ(FindingOf(servers)["text"],
            "5 servers with 5 GPUs; 4 not offered: one is silent; two is silent; three is silent ...");
}

TEST(DoctorText, NothingOfThePlacerReachesTheTerminal) {
  WhoamiAnswer answer = Answer("nobody");
  answer.set_holder("a\x1b[2J");
  answer.set_cluster("b\x1b[2J");
  answer.set_release("c\x1b[2J");
  EXPECT_THAT(FindingsOf("unix:/p", answer, kNow, kNow, "1").dump(), Not(HasSubstr("u001b")));
}

}  // namespace
}  // namespace tessera
