#include "protocol/link/typed_address.h"

#include <algorithm>
#include <charconv>

#include "protocol/base/printable.h"
#include "protocol/link/link_address.h"

namespace tessera {
namespace {

constexpr std::string_view kUnix = "unix:";

bool IsOfName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}
bool IsOfIpv6(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

// A scheme whose "//" is missing is a slip, and no host of that name.
bool IsSchemeWord(std::string_view word) {
  return word == "unix" || std::ranges::any_of(kLinkSchemes, [&](const LinkSchemeRow& row) {
           return word == row.prefix.substr(0, row.prefix.find(':'));
         });
}

bool IsName(std::string_view text) { return !text.empty() && text[0] != '-' && std::ranges::all_of(text, IsOfName); }
bool IsIpv6(std::string_view text) { return std::ranges::count(text, ':') >= 2 && std::ranges::all_of(text, IsOfIpv6); }

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// "HOST:PORT" of a host with or without its port, an IPv6 address in brackets; empty: it is neither.
std::string HostAndPort(std::string_view text, const std::string& port) {
  if (IsIpv6(text)) return "[" + std::string(text) + "]:" + port;
  std::string_view host = text.substr(0, text.rfind(':'));
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || !IsIpv6(text.substr(1, end - 1))) return "";
    host = text.substr(0, end + 1);
  } else if (!IsName(host)) {
    return "";
  }
  const std::string_view rest = text.substr(host.size());
  if (rest.empty()) return std::string(host) + ":" + port;
  return IsPort(rest.substr(1)) && rest[0] == ':' ? std::string(text) : "";
}

}  // namespace

std::string AddressMeantBy(std::string_view typed, uint16_t port_number) {
  const std::string port = std::to_string(port_number);
  for (const LinkSchemeRow& row : kLinkSchemes) {
    if (!typed.starts_with(row.prefix)) continue;
    const std::string_view said = typed.substr(row.prefix.size());
    // Without brackets nobody knows where the address ends and the port begins.
    const std::string rest = IsIpv6(said) ? "" : HostAndPort(said, port);
    return rest.empty() ? std::string(typed) : std::string(row.prefix) + rest;
  }
  if (typed.starts_with(kUnix) || typed.find("://") != std::string_view::npos) return std::string(typed);
  if (typed.find('/') != std::string_view::npos) return std::string(kUnix) + std::string(typed);
  if (IsSchemeWord(typed.substr(0, typed.find(':')))) return std::string(typed);
  const std::string rest = HostAndPort(typed, port);
  return rest.empty() ? std::string(typed) : "tls://" + rest;
}

std::string TakenAs(std::string_view typed, std::string_view address) {
  if (typed == address) return "";
  return " ('" + Printable(typed) + "' is taken as " + Printable(address) + ")";
}

}  // namespace tessera
