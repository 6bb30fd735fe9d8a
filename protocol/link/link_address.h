// Addresses of links, SCHEME://HOST:PORT: what they look like. What each scheme leads to is in connect_link.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/base/status.h"

namespace tessera {

enum class LinkScheme {
  kTcp,  // plain (tcp/tcp_link.h)
  kTls,  // encrypted, with certificates on both sides (tls/tls_link.h)
  kUcx,  // over RDMA or TCP, plain (ucx/ucx_link.h)
};
struct LinkSchemeRow {
  LinkScheme scheme;
  std::string_view prefix;
};
// In the order in which help names them.
inline constexpr LinkSchemeRow kLinkSchemes[] = {
    {LinkScheme::kTcp, "tcp://"}, {LinkScheme::kTls, "tls://"}, {LinkScheme::kUcx, "ucx://"}};

struct LinkAddress {
  static constexpr size_t kHostBytesMax = 253;  // of a name in the DNS (RFC 1035)

  std::string host;   // a name, an IPv4 address, or an IPv6 address without its brackets
  uint16_t port = 0;  // 0: one that the kernel chooses; for listening only
  LinkScheme scheme = LinkScheme::kTcp;

  // Takes "SCHEME://HOST:PORT" apart; an IPv6 address stands in brackets. kInvalidArgument with the form it takes.
  static Result<LinkAddress> Parse(std::string_view url);
  std::string Url() const;
};

// Whether `url` begins with the scheme of a link, whatever follows.
bool HasLinkScheme(std::string_view url);

// The forms that addresses of links take, for sentences and help: "tcp://HOST:PORT or tls://HOST:PORT", with `between` between
// them.
std::string LinkForms(std::string_view between = " or ");

}  // namespace tessera
