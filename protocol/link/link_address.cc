#include "protocol/link/link_address.h"

#include <charconv>

namespace tessera {
namespace {

std::string_view PrefixOf(LinkScheme scheme) {
  for (const auto& row : kLinkSchemes) {
    if (row.scheme == scheme) return row.prefix;
  }
  return "";
}

Status Malformed(std::string_view url) {
  return Status(StatusCode::kInvalidArgument, "the address '" + std::string(url) + "' has not the form " + LinkForms() +
                                                  " (an IPv6 address in brackets: " + std::string(kLinkSchemes[0].prefix) +
                                                  "[::1]:PORT)");
}

}  // namespace

Result<LinkAddress> LinkAddress::Parse(std::string_view url) {
  LinkAddress address;
  std::string_view rest;
  for (const auto& row : kLinkSchemes) {
    if (!url.starts_with(row.prefix)) continue;
    address.scheme = row.scheme;
    rest = url.substr(row.prefix.size());
  }
  std::string_view host;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return Malformed(url);
    host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    const size_t colon = rest.find(':');
    host = rest.substr(0, colon);
    rest.remove_prefix(host.size());
  }
  if (host.empty() || host.size() > kHostBytesMax || host.find('\0') != std::string_view::npos || !rest.starts_with(':')) {
    return Malformed(url);
  }
  rest.remove_prefix(1);
  address.host = host;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), address.port);
  if (rest.empty() || error != std::errc() || end != rest.data() + rest.size()) return Malformed(url);
  return address;
}

std::string LinkAddress::Url() const {
  const bool brackets = host.find(':') != std::string::npos;
  return std::string(PrefixOf(scheme)) + (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool HasLinkScheme(std::string_view url) {
  for (const auto& row : kLinkSchemes) {
    if (url.starts_with(row.prefix)) return true;
  }
  return false;
}

std::string LinkForms(std::string_view between) {
  std::string forms;
  for (const auto& row : kLinkSchemes) {
    if (!forms.empty()) forms += between;
    forms += std::string(row.prefix) + "HOST:PORT";
  }
  return forms;
}

}  // namespace tessera
