// Addresses of links: SCHEME://HOST:PORT. connect_link.h says what each scheme leads to.
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
  uint16_t port = 0;  // 0: the kernel chooses one; for listening only
  LinkScheme scheme = LinkScheme::kTcp;

  // Takes "SCHEME://HOST:PORT" apart; an IPv6 address stands in brackets. kInvalidArgument with the form it takes.
  static Result<LinkAddress> Parse(std::string_view url);
  std::string Url() const;
};

// Whether `url` begins with the scheme of a link. What follows is not checked.
bool HasLinkScheme(std::string_view url);

// The forms of addresses, for messages and help: "tcp://HOST:PORT or tls://HOST:PORT", with `between` between two of them.
std::string LinkForms(std::string_view between = " or ");

}  // namespace tessera
