#include "netaware/cli/pool_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "protocol/ticket/ticket_keys.h"

namespace tessera {
namespace {

using testing::HasSubstr;

constexpr int64_t kExpires = 1'800'000'000'000;

class PoolChecksTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/pool_checks_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    setenv("XDG_CONFIG_HOME", name, 1);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(directory_ + "/tessera");
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  static std::string SomeTicket() {
    Ticket ticket = {
        .cluster = "lab", .server = "gpu7", .holder = "name:alice", .issued_ms = kExpires - 1, .expires_ms = kExpires};
    ticket.vgpus = {{.request = 1}};
    const std::vector<std::byte> bytes = TicketSigner::Make().value().Sign(ticket);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string directory_;
};

TEST_F(PoolChecksTest, Tickets) {
  const std::string good = File("good", SomeTicket()), bad = File("bad", SomeTicket().substr(0, 60));
  EXPECT_TRUE(CheckTickets("", kExpires).empty());
  const std::vector<Finding> now = CheckTickets(good + "," + bad + "," + directory_ + "/none", kExpires - 1);
  ASSERT_EQ(now.size(), 3U);
  EXPECT_EQ(now[0].grade, Grade::kGood);
  EXPECT_THAT(now[0].text, HasSubstr(good + " is for name:alice at server gpu7 of the pool 'lab', grant 0000"));
  EXPECT_THAT(now[0].text, HasSubstr(", until 2027-01-15"));
  EXPECT_EQ(now[1].grade, Grade::kProblem);
  EXPECT_THAT(now[1].text, HasSubstr(bad + ": the ticket is cut off"));
  EXPECT_EQ(now[2].grade, Grade::kProblem);
  EXPECT_THAT(now[2].text, HasSubstr("/none: No such file"));
  const std::vector<Finding> later = CheckTickets(good, kExpires);
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].grade, Grade::kNote);
  EXPECT_THAT(later[0].text, HasSubstr("has ended at"));
  EXPECT_FALSE(later[0].advice.empty());
}

TEST_F(PoolChecksTest, FilesOfSettings) {
  if (access("/etc/tessera/config.toml", F_OK) == 0) GTEST_SKIP() << "this machine has a file of settings";
  JobConfig config;
  std::vector<Finding> findings;
  EXPECT_TRUE(CheckConfig(&config, &findings));
  EXPECT_TRUE(findings.empty());
  const std::string path = File("tessera/config.toml", "placer = 'unix:/p'\ngpu-share = 0.5\n");
  EXPECT_TRUE(CheckConfig(&config, &findings));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, path + " has placer, gpu-share");
  EXPECT_EQ(config.Find("placer")->line, 1);
  File("tessera/config.toml", "\nplaser = 'unix:/p'\n");
  EXPECT_FALSE(CheckConfig(&config, &findings));
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].grade, Grade::kProblem);
  EXPECT_THAT(findings[1].text, HasSubstr(path + ", line 2: there is no key 'plaser'"));
}

}  // namespace
}  // namespace tessera
