// Connections of whom nothing is known yet, at an address that others reach: how many are kept, and which goes for a newer one.
// The newest stays always: whoever floods a server drives out himself first, and a client in between is through in a moment.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tessera {

// Where a connection comes from.
class Source {
 public:
  Source() = default;  // this host
  explicit Source(const sockaddr_storage& address);
  // Of the peer of a connected socket; of what is no socket of a network: this host.
  static Source Of(int connection);

  // Whether it is a network's socket at all.
  bool HasAddress() const { return host_bytes_ != 0; }
  // A loopback address, or none at all.
  bool IsThisHost() const { return this_host_; }
  // Whether the two are in the same hands as a rule: one IPv4 address, one /64 of IPv6.
  bool SameHost(const Source& other) const { return Same(other, host_bytes_); }
  // The same for a /48 of IPv6, which one subscriber may have.
  bool SameSite(const Source& other) const { return Same(other, site_bytes_); }

 private:
  bool Same(const Source& other, size_t bytes) const;

  bool this_host_ = true;
  size_t host_bytes_ = 0;
  size_t site_bytes_ = 0;
  std::array<uint8_t, 16> address_{};  // of IPv6; an IPv4 address in its clothes
};

struct StrangerBounds {
  static constexpr size_t kAllMax = 1024;

  size_t per_source = 256;  // for each host and each site; this host's are bounded in all alone
  size_t in_all = kAllMax;

  // `in_all` as the process' descriptors allow: an eighth of them.
  static StrangerBounds OfThisProcess();
};

struct Stranger {
  Source source;
  bool expected = false;  // comes from where a session is carried to: may be its next connection
};

// Which of these, the oldest first, goes for the last of them, which has just come. Those that are expected go after the others.
// Nullopt: there is room for all.
std::optional<size_t> WhoGoes(std::span<const Stranger> strangers, const StrangerBounds& bounds);
// Which of these goes when there is no room for any more.
std::optional<size_t> OldestOf(std::span<const Stranger> strangers);

}  // namespace tessera
