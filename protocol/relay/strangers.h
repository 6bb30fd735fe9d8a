// Connections of which nothing is known yet, at an address or a socket that others reach. Decides how many are kept, and which
// one is dropped for a newer one. The newest always stays. So a flood pushes out its own connections first, while a client among
// them soon proves itself. One whose first message was right goes after those that are silent or talk nonsense: on a busy machine
// it waits for us rather than we for it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>

namespace tessera {

// Where a connection comes from.
class Source {
 public:
  // How many first bytes of an address say whose it is, and these bytes. An IPv4 address has the form of IPv6 (RFC 4291,
  // 2.5.5.2).
  using Key = std::pair<size_t, std::array<uint8_t, 16>>;

  Source() = default;  // this host
  explicit Source(const sockaddr_storage& address);
  // The source of a connected socket's peer. This host for anything that is no network socket.
  static Source Of(int connection);
  // A user of this host, at a Unix socket that others may connect to.
  static Source OfUser(uint32_t uid);

  // Whether it says more than "this host".
  bool HasAddress() const { return host_bytes_ != 0; }
  // Whether it is a loopback address, or no address at all.
  bool IsThisHost() const { return this_host_; }
  // Equal for sources that usually are in the same hands: one IPv4 address, one /64 of IPv6, one user, this host.
  Key host() const { return KeyOf(host_bytes_); }
  // The same, but with a /48 of IPv6, which one subscriber may have.
  Key site() const { return KeyOf(site_bytes_); }

 private:
  Key KeyOf(size_t bytes) const;

  bool this_host_ = true;
  size_t host_bytes_ = 0;
  size_t site_bytes_ = 0;
  std::array<uint8_t, 16> address_{};  // an IPv6 address, an IPv4 address in its form, or a user id
};

struct StrangerBounds {
  static constexpr size_t kAllMax = 1024;

  size_t per_source = 256;  // for each host, each site, each user; for this host only in_all counts
  size_t in_all = kAllMax;

  // `in_all` is an eighth of the descriptors that this process may have, but at most kAllMax.
  static StrangerBounds OfThisProcess();
};

// One thread at a time. Each step takes logarithmic time in the number of connections.
class Strangers {
 public:
  using Id = uint64_t;  // names a connection; the caller chooses it
  // How many connections a session may come back with. So many connections of its host are expected, and are dropped after the
  // others.
  static constexpr size_t kConnectionsOfSession = 16;

  explicit Strangers(const StrangerBounds& bounds) : bounds_(bounds) {}

  // Enters a new connection. Returns the connection to drop for it, if any, and forgets that one.
  std::optional<Id> Come(Id id, const Source& source);
  // Forgets a connection: it has proved something, or is gone. It may be unknown already.
  void Leave(Id id);
  // Its first message was right. It may be unknown already.
  void Understood(Id id);
  // Forgets the oldest connection and returns it: for when there is no room for any more.
  std::optional<Id> GiveUpOldest();
  size_t count() const { return known_.size(); }

  // A session with this source's host has begun, or has ended.
  void SessionBegins(const Source& source) { ++sessions_[source.host()]; }
  void SessionEnds(const Source& source);

 private:
  // Which connections go first.
  enum Rank : size_t { kOther, kOtherUnderstood, kExpected, kExpectedUnderstood, kRanks };
  // Some connections by rank, oldest first.
  struct Group {
    std::array<std::list<Id>, kRanks> of;
    size_t size() const {
      size_t all = 0;
      for (const std::list<Id>& list : of) all += list.size();
      return all;
    }
  };
  // A group that a connection is in, and its place there.
  struct Place {
    Group* group;
    std::list<Id>::iterator at;
  };
  struct Known {
    Source source;
    Rank rank;
    bool expected() const { return rank >= kExpected; }
    std::array<std::optional<Place>, 3> places;  // in all_, in its host's group, in its site's
  };
  using Groups = std::map<Source::Key, Group>;

  static std::optional<Id> OldestOf(const Group& group, std::optional<Id> but_for = {});
  static void DropEmpty(Groups* groups, const Source::Key& key);

  const StrangerBounds bounds_;
  std::map<Id, Known> known_;
  Group all_;
  Groups hosts_, sites_;                    // this host is in neither
  std::map<Source::Key, size_t> sessions_;  // by host
  std::map<Source::Key, size_t> expected_;  // connections, by host
};

}  // namespace tessera
