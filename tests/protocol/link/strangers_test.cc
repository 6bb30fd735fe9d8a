#include "protocol/relay/strangers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <optional>
#include <string>

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

bool SameHost(const std::string& one, const std::string& other) { return At(one).host() == At(other).host(); }
bool SameSite(const std::string& one, const std::string& other) { return At(one).site() == At(other).site(); }

constexpr StrangerBounds kBounds{.per_source = 4, .in_all = 10};

TEST(SourceTest, HostsAndSites) {
  EXPECT_TRUE(SameHost("192.0.2.1", "192.0.2.1"));
  EXPECT_TRUE(SameHost("192.0.2.1", "::ffff:192.0.2.1"));
  EXPECT_FALSE(SameHost("192.0.2.1", "192.0.2.2"));
  EXPECT_FALSE(SameSite("192.0.2.1", "192.0.2.2"));
  EXPECT_TRUE(SameHost("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
  EXPECT_FALSE(SameHost("2001:db8:1:2::1", "2001:db8:1:3::1"));
  EXPECT_TRUE(SameSite("2001:db8:1:2::1", "2001:db8:1:3::1"));
  EXPECT_FALSE(SameSite("2001:db8:1::1", "2001:db8:2::1"));
  EXPECT_FALSE(SameSite("192.0.2.1", "2001:db8:1::1"));
}

TEST(SourceTest, ThisHost) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) EXPECT_TRUE(At(host).IsThisHost()) << host;
  for (const char* host : {"128.0.0.1", "::2", "::ffff:10.0.0.1"}) EXPECT_FALSE(At(host).IsThisHost()) << host;
  EXPECT_TRUE(Source().IsThisHost());
  EXPECT_FALSE(Source().HasAddress());
  EXPECT_EQ(At("127.0.0.1").host(), Source().host());
  EXPECT_FALSE(SameHost("10.0.0.1", "127.0.0.1"));
}

using Gone = std::optional<Strangers::Id>;

class StrangersTest : public testing::Test {
 protected:
  // So many connections of a host come; who went for the last of them. They are numbered from 0 on, all together.
  Gone Come(const std::string& host, int count = 1) {
    Gone gone;
    for (int i = 0; i < count; ++i) gone = strangers_.Come(next_++, At(host));
    return gone;
  }

  Strangers strangers_{kBounds};
  Strangers::Id next_ = 0;
};

TEST_F(StrangersTest, NobodyGoesWhileThereIsRoom) {
  EXPECT_EQ(Come("192.0.2.1", 4), Gone());
  EXPECT_EQ(Come("192.0.2.2", 4), Gone());
  EXPECT_EQ(Come("127.0.0.1", 2), Gone());
  EXPECT_EQ(strangers_.count(), 10u);
}

TEST_F(StrangersTest, TheOldestOfTheNewestsSource) {
  Come("192.0.2.1", 2);
  EXPECT_EQ(Come("192.0.2.2", 5), Gone(2));
  EXPECT_EQ(Come("192.0.2.2"), Gone(3));
  EXPECT_EQ(Come("192.0.2.1", 2), Gone());
  EXPECT_EQ(Come("192.0.2.1"), Gone(0));
}

TEST_F(StrangersTest, TheOldestOfASite) {
  Come("192.0.2.1");
  for (const char* host : {"2001:db8:1:1::", "2001:db8:1:2::", "2001:db8:1:3::", "2001:db8:1:4::"}) EXPECT_EQ(Come(host), Gone());
  EXPECT_EQ(Come("2001:db8:1:5::"), Gone(1));
  EXPECT_EQ(Come("2001:db8:2:5::"), Gone());
}

TEST_F(StrangersTest, TheOldestOfAllBeyondTheBoundForAll) {
  Come("192.0.2.1", 4);
  Come("192.0.2.2", 4);
  EXPECT_EQ(Come("192.0.2.3", 3), Gone(0));
  EXPECT_EQ(Come("192.0.2.4"), Gone(1));
}

TEST_F(StrangersTest, ThisHostIsBoundedInAllAlone) {
  EXPECT_EQ(Come("127.0.0.1", 10), Gone());
  EXPECT_EQ(Come("127.0.0.2"), Gone(0));
}

TEST_F(StrangersTest, WhoHasProvedSomethingGoesForNobody) {
  Come("192.0.2.1", 4);
  strangers_.Leave(0);
  strangers_.Leave(0);
  strangers_.Leave(2);
  EXPECT_EQ(Come("192.0.2.1", 2), Gone());
  EXPECT_EQ(Come("192.0.2.1"), Gone(1));
  EXPECT_EQ(Come("192.0.2.1"), Gone(3));
}

TEST_F(StrangersTest, WhoIsExpectedGoesAfterTheOthers) {
  Come("192.0.2.1", 2);
  strangers_.SessionBegins(At("192.0.2.1"));
  EXPECT_EQ(Come("192.0.2.1", 3), Gone(0));
  EXPECT_EQ(Come("192.0.2.1"), Gone(1));
  EXPECT_EQ(Come("192.0.2.1"), Gone(2));  // all are: the oldest of them
  strangers_.SessionEnds(At("192.0.2.1"));
  EXPECT_EQ(Come("192.0.2.1"), Gone(3));  // never the newest
  // The one that was not expected goes before those that were, whatever its age.
  EXPECT_EQ(Come("127.0.0.1", 7), Gone(7));
}

TEST_F(StrangersTest, WhoseWordsWereRightGoesAfterTheSilent) {
  Come("127.0.0.1", 3);
  strangers_.Understood(0);
  strangers_.Understood(0);
  strangers_.Understood(99);
  EXPECT_EQ(Come("127.0.0.1", 8), Gone(1));
  strangers_.Understood(4);
  EXPECT_EQ(Come("127.0.0.1", 2), Gone(3));
  EXPECT_EQ(Come("127.0.0.1"), Gone(5));
  for (Strangers::Id id = 6; id < next_; ++id) strangers_.Understood(id);
  EXPECT_EQ(Come("127.0.0.1"), Gone(0));  // the newest stays, though it has said nothing
  EXPECT_EQ(Come("127.0.0.1"), Gone(14));
  strangers_.Leave(4);
  EXPECT_EQ(strangers_.count(), 9u);
}

TEST_F(StrangersTest, WhoIsExpectedGoesAfterThoseWhoseWordsWereRight) {
  strangers_.SessionBegins(At("127.0.0.1"));
  Come("127.0.0.1");
  strangers_.SessionEnds(At("127.0.0.1"));
  Come("127.0.0.1", 9);
  for (Strangers::Id id = 1; id < 10; ++id) strangers_.Understood(id);
  EXPECT_EQ(Come("192.0.2.1"), Gone(1));
}

TEST_F(StrangersTest, NoMoreAreExpectedThanASessionHasConnections) {
  Strangers many({.per_source = 100, .in_all = 17});
  many.SessionBegins(At("192.0.2.1"));
  for (Strangers::Id id = 0; id < 17; ++id) EXPECT_EQ(many.Come(id, At("192.0.2.1")), Gone());
  EXPECT_EQ(many.Come(17, At("192.0.2.1")), Gone(16));
}

TEST_F(StrangersTest, TheOldestIsGivenUp) {
  EXPECT_EQ(strangers_.GiveUpOldest(), Gone());
  Come("192.0.2.1", 2);
  EXPECT_EQ(strangers_.GiveUpOldest(), Gone(0));
  EXPECT_EQ(strangers_.GiveUpOldest(), Gone(1));
  EXPECT_EQ(strangers_.count(), 0u);
}

TEST_F(StrangersTest, AUserOfThisHostDrivesOutHisOwnAlone) {
  Strangers users({.per_source = 3, .in_all = 100});
  EXPECT_EQ(users.Come(0, Source::OfUser(1000)), Gone());
  for (Strangers::Id id = 1; id <= 3; ++id) EXPECT_EQ(users.Come(id, Source::OfUser(1001)), Gone());
  EXPECT_EQ(users.Come(4, Source::OfUser(1001)), Gone(1));
  EXPECT_EQ(users.Come(5, Source::OfUser(1001)), Gone(2));
  EXPECT_EQ(users.Come(6, Source::OfUser(0)), Gone());
}

TEST(StrangerBoundsTest, EachSourceHasItsPlaces) { EXPECT_GE(StrangerBounds().per_source, 256u); }

}  // namespace
}  // namespace tessera
