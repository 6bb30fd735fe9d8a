// Connections of whom nothing is known yet, at an address or a socket that others reach: how many are kept, and which goes for a
// newer one. The newest always stays: a flood pushes out its own connections first, and a client among them has proved itself in
// a moment.
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
  // The first bytes of an address that say whose it is, and how many; of IPv4 in the form of IPv6 (RFC 4291, 2.5.5.2).
  using Key = std::pair<size_t, std::array<uint8_t, 16>>;

  Source() = default;  // this host
  explicit Source(const sockaddr_storage& address);
  // Of the peer of a connected socket; of what is no socket of a network: this host.
  static Source Of(int connection);
  // A user of this host, at a Unix socket that others may connect to.
  static Source OfUser(uint32_t uid);

  // Whether it says more than that it is of this host.
  bool HasAddress() const { return host_bytes_ != 0; }
  // A loopback address, or none at all.
  bool IsThisHost() const { return this_host_; }
  // Equal for what is in the same hands as a rule: one IPv4 address, one /64 of IPv6, one user; this host.
  Key host() const { return KeyOf(host_bytes_); }
  // The same with a /48 of IPv6, which one subscriber may have.
  Key site() const { return KeyOf(site_bytes_); }

 private:
  Key KeyOf(size_t bytes) const;

  bool this_host_ = true;
  size_t host_bytes_ = 0;
  size_t site_bytes_ = 0;
  std::array<uint8_t, 16> address_{};  // of IPv6, or of IPv4 in its form; or a user's number
};

struct StrangerBounds {
  static constexpr size_t kAllMax = 1024;

  size_t per_source = 256;  // for each host, each site, each user; this host's are bounded in all alone
  size_t in_all = kAllMax;

  // `in_all` as the process' descriptors allow: an eighth of them.
  static StrangerBounds OfThisProcess();
};

// One thread at a time. Each step takes the logarithm of how many there are.
class Strangers {
 public:
  using Id = uint64_t;  // of a connection, the caller's
  // Connections that a session may come back with; as many of its host are expected, and go after the others.
  static constexpr size_t kConnectionsOfSession = 16;

  explicit Strangers(const StrangerBounds& bounds) : bounds_(bounds) {}

  // A new connection. Which one goes for it: it is none any more.
  std::optional<Id> Come(Id id, const Source& source);
  // It has proved something, or is gone; it may have been so before.
  void Leave(Id id);
  // The oldest one goes, when there is no room for any more.
  std::optional<Id> GiveUpOldest();
  size_t count() const { return known_.size(); }

  // A session of this host has begun, has ended.
  void SessionBegins(const Source& source) { ++sessions_[source.host()]; }
  void SessionEnds(const Source& source);

 private:
  // Some connections, the oldest first.
  struct Group {
    std::list<Id> others, expected;
    size_t size() const { return others.size() + expected.size(); }
  };
  // One group that a connection is in, and where.
  struct Place {
    Group* group;
    std::list<Id>::iterator at;
  };
  struct Known {
    Source source;
    bool expected;
    std::array<std::optional<Place>, 3> places;  // all, its host's, its site's
  };
  using Groups = std::map<Source::Key, Group>;

  static std::optional<Id> OldestOf(const Group& group, std::optional<Id> but_for = {});
  static void DropEmpty(Groups* groups, const Source::Key& key);

  const StrangerBounds bounds_;
  std::map<Id, Known> known_;
  Group all_;
  Groups hosts_, sites_;                    // this host has none
  std::map<Source::Key, size_t> sessions_;  // by host
  std::map<Source::Key, size_t> expected_;  // connections, by host
};

}  // namespace tessera
