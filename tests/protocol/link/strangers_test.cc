#include "protocol/relay/strangers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

Source At(const std::string& host) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    address.ss_family = AF_INET6;
  } else {
    ADD_FAILURE() << host;
  }
  return Source(address);
}

std::vector<Stranger> Strangers(const std::string& host, size_t count) {
  return std::vector<Stranger>(count, Stranger{At(host), false});
}

std::vector<Stranger> operator+(std::vector<Stranger> first, const std::vector<Stranger>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

constexpr StrangerBounds kBounds{.per_source = 4, .in_all = 10};

TEST(SourceTest, HostsAndSites) {
  EXPECT_TRUE(At("192.0.2.1").SameHost(At("192.0.2.1")));
  EXPECT_TRUE(At("192.0.2.1").SameHost(At("::ffff:192.0.2.1")));
  EXPECT_FALSE(At("192.0.2.1").SameHost(At("192.0.2.2")));
  EXPECT_FALSE(At("192.0.2.1").SameSite(At("192.0.2.2")));
  EXPECT_TRUE(At("2001:db8:1:2::1").SameHost(At("2001:db8:1:2:ffff::9")));
  EXPECT_FALSE(At("2001:db8:1:2::1").SameHost(At("2001:db8:1:3::1")));
  EXPECT_TRUE(At("2001:db8:1:2::1").SameSite(At("2001:db8:1:3::1")));
  EXPECT_FALSE(At("2001:db8:1::1").SameSite(At("2001:db8:2::1")));
  EXPECT_FALSE(At("192.0.2.1").SameSite(At("2001:db8:1::1")));
}

TEST(SourceTest, ThisHost) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) EXPECT_TRUE(At(host).IsThisHost()) << host;
  for (const char* host : {"128.0.0.1", "::2", "::ffff:10.0.0.1"}) EXPECT_FALSE(At(host).IsThisHost()) << host;
  EXPECT_TRUE(Source().IsThisHost());
  EXPECT_FALSE(Source().HasAddress());
  EXPECT_TRUE(At("127.0.0.1").SameHost(Source()));
  EXPECT_FALSE(At("10.0.0.1").SameHost(At("127.0.0.1")));
}

TEST(WhoGoesTest, NobodyWhileThereIsRoom) {
  EXPECT_EQ(WhoGoes({}, kBounds), std::nullopt);
  EXPECT_EQ(WhoGoes(Strangers("192.0.2.1", 4), kBounds), std::nullopt);
  EXPECT_EQ(WhoGoes(Strangers("192.0.2.1", 4) + Strangers("192.0.2.2", 4), kBounds), std::nullopt);
  EXPECT_EQ(WhoGoes(Strangers("127.0.0.1", 10), kBounds), std::nullopt);  // this host is bounded in all alone
}

TEST(WhoGoesTest, TheOldestOfTheNewestsSource) {
  EXPECT_EQ(WhoGoes(Strangers("192.0.2.1", 2) + Strangers("192.0.2.2", 5), kBounds), 2u);
  EXPECT_EQ(WhoGoes(Strangers("192.0.2.1", 2) + Strangers("2001:db8:1:2::1", 5), kBounds), 2u);
}

TEST(WhoGoesTest, TheOldestOfASite) {
  std::vector<Stranger> strangers = Strangers("192.0.2.1", 1);
  for (const char* host : {"2001:db8:1:1::", "2001:db8:1:2::", "2001:db8:1:3::", "2001:db8:1:4::", "2001:db8:1:5::"}) {
    strangers = strangers + Strangers(host, 1);
  }
  EXPECT_EQ(WhoGoes(strangers, kBounds), 1u);
}

TEST(WhoGoesTest, TheOldestOfAllBeyondTheBoundForAll) {
  EXPECT_EQ(WhoGoes(Strangers("192.0.2.1", 4) + Strangers("192.0.2.2", 4) + Strangers("192.0.2.3", 3), kBounds), 0u);
  EXPECT_EQ(WhoGoes(Strangers("127.0.0.1", 11), kBounds), 0u);
}

TEST(WhoGoesTest, WhoIsExpectedGoesAfterTheOthers) {
  std::vector<Stranger> strangers = Strangers("192.0.2.1", 5);
  strangers[0].expected = strangers[1].expected = true;
  EXPECT_EQ(WhoGoes(strangers, kBounds), 2u);
  for (Stranger& stranger : strangers) stranger.expected = true;
  EXPECT_EQ(WhoGoes(strangers, kBounds), 0u);
}

TEST(WhoGoesTest, NeverTheNewest) {
  std::vector<Stranger> strangers = Strangers("192.0.2.1", 5);
  for (Stranger& stranger : strangers) stranger.expected = true;
  strangers.back().expected = false;
  EXPECT_EQ(WhoGoes(strangers, kBounds), 0u);
  EXPECT_EQ(OldestOf(Strangers("192.0.2.1", 3)), 0u);
}

TEST(StrangerBoundsTest, EachSourceHasItsPlaces) { EXPECT_GE(StrangerBounds().per_source, 256u); }

}  // namespace
}  // namespace tessera
