#include "protocol/relay/strangers.h"

#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

constexpr size_t kAddressBytes = 16;
constexpr size_t kIpv4Offset = 12;

// The oldest of those that `belongs` tells of, the last one left out, once they are more than `count_max` with it.
template <typename Belongs>
std::optional<size_t> OldestBeyond(std::span<const Stranger> strangers, size_t count_max, const Belongs& belongs) {
  size_t count = 0;
  std::optional<size_t> oldest, oldest_expected;
  for (size_t i = 0; i < strangers.size(); ++i) {
    if (!belongs(strangers[i].source)) continue;
    ++count;
    std::optional<size_t>& of_kind = strangers[i].expected ? oldest_expected : oldest;
    if (!of_kind && i + 1 < strangers.size()) of_kind = i;
  }
  if (count <= count_max) return std::nullopt;
  return oldest ? oldest : oldest_expected;
}

bool Everybody(const Source&) { return true; }

}  // namespace

Source::Source(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    address_[10] = address_[11] = 0xff;
    std::memcpy(address_.data() + kIpv4Offset, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(address_.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, kAddressBytes);
  } else {
    return;
  }
  in6_addr six;
  std::memcpy(&six, address_.data(), kAddressBytes);
  const bool four = IN6_IS_ADDR_V4MAPPED(&six);
  this_host_ = four ? address_[kIpv4Offset] == 127 : IN6_IS_ADDR_LOOPBACK(&six);
  host_bytes_ = four ? kAddressBytes : 64 / 8;
  site_bytes_ = four ? kAddressBytes : 48 / 8;
}

Source Source::Of(int connection) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  return getpeername(connection, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? Source(address) : Source();
}

bool Source::Same(const Source& other, size_t bytes) const {
  if (this_host_ || other.this_host_) return this_host_ == other.this_host_;
  return host_bytes_ == other.host_bytes_ && std::equal(address_.begin(), address_.begin() + bytes, other.address_.begin());
}

StrangerBounds StrangerBounds::OfThisProcess() {
  StrangerBounds bounds;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) bounds.in_all = std::clamp<rlim_t>(limit.rlim_cur / 8, 1, kAllMax);
  return bounds;
}

std::optional<size_t> WhoGoes(std::span<const Stranger> strangers, const StrangerBounds& bounds) {
  if (strangers.empty()) return std::nullopt;
  const Source& newest = strangers.back().source;
  if (!newest.IsThisHost() && strangers.size() > bounds.per_source) {
    if (const auto goes = OldestBeyond(strangers, bounds.per_source, [&](const Source& one) { return one.SameHost(newest); }))
      return goes;
    if (const auto goes = OldestBeyond(strangers, bounds.per_source, [&](const Source& one) { return one.SameSite(newest); }))
      return goes;
  }
  return OldestBeyond(strangers, bounds.in_all, Everybody);
}

std::optional<size_t> OldestOf(std::span<const Stranger> strangers) { return OldestBeyond(strangers, 0, Everybody); }

}  // namespace tessera
