#include "protocol/link/connect/connect_link.h"

#include <algorithm>
#include <utility>

#include "protocol/link/striped/joining_links.h"
#include "protocol/link/tcp/tcp_endpoint.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_link.h"
#include "protocol/link/ucx/ucx_link.h"

namespace tessera {
namespace {

// A kind of link: a row below, beside that of its scheme in link_address.h.
struct LinkKind {
  LinkScheme scheme;
  Result<std::unique_ptr<Link>> (*connect)(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns);
  Result<std::unique_ptr<LinkListener>> (*listen)(const LinkAddress& address, const LinkOptions& options, UniqueFd bound);
  bool insecure_socket = false;  // whether anybody may be reached through its socket, since what travels is protected
  bool has_socket = true;        // of TCP
  Status (*prepare)() = nullptr;
  bool joins = true;  // links of it may have several connections
};

constexpr LinkKind kKinds[] = {
    {LinkScheme::kTcp,
     [](const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns) {
       return ConnectTcp(address, options.insecure, deadline_ns, options.dial);
     },
     [](const LinkAddress& address, const LinkOptions& options, UniqueFd bound) -> Result<std::unique_ptr<LinkListener>> {
       if (!options.allow.empty() || !options.allow_file.empty()) {
         return Status(StatusCode::kInvalidArgument,
                       "nobody has a name at " + address.Url() + ": --allow is for tls://, which shows certificates");
       }
       Result<TcpListener> listener =
           bound.valid() ? TcpListener::Adopt(std::move(bound), address) : TcpListener::Bind(address, options.insecure);
       if (!listener.ok()) return listener.status();
       return std::unique_ptr<LinkListener>(std::make_unique<TcpListener>(std::move(*listener)));
     }},
    {LinkScheme::kUcx,
     [](const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns) {
       return ConnectUcx(address, options.insecure, deadline_ns);
     },
     [](const LinkAddress& address, const LinkOptions& options, UniqueFd) { return ListenUcx(address, options.insecure); }, false,
     false, PrepareUcx, false},
    {LinkScheme::kTls,
     [](const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns) {
       return ConnectTls(address, options, deadline_ns);
     },
     [](const LinkAddress& address, const LinkOptions& options, UniqueFd bound) -> Result<std::unique_ptr<LinkListener>> {
       Result<std::unique_ptr<TlsListener>> listener = TlsListener::Bind(address, options, std::move(bound));
       if (!listener.ok()) return listener.status();
       return std::unique_ptr<LinkListener>(std::move(*listener));
     },
     true},
};

const LinkKind* Find(LinkScheme scheme) {
  for (const LinkKind& kind : kKinds) {
    if (kind.scheme == scheme) return &kind;
  }
  return nullptr;
}

Status NotBuilt(const LinkAddress& address) {
  return Status(StatusCode::kUnsupported, "this build of tessera has no link for " + address.Url() + ": choose another scheme");
}

}  // namespace

Status PrepareLinks(const LinkAddress& address) {
  const LinkKind* kind = Find(address.scheme);
  return kind == nullptr || kind->prepare == nullptr ? Status::Ok() : kind->prepare();
}

std::vector<std::string> LibraryDirectories(const LinkAddress& address) {
  return address.scheme == LinkScheme::kUcx ? UcxDirectories() : std::vector<std::string>();
}

Result<std::unique_ptr<Link>> ConnectLink(const LinkAddress& address, const LinkOptions& options, uint64_t deadline_ns) {
  const LinkKind* kind = Find(address.scheme);
  if (kind == nullptr) return NotBuilt(address);
  if (!kind->joins && options.connections > 1) {
    return Status(StatusCode::kInvalidArgument, "a link to " + address.Url() + " has one connection: leave --connections out");
  }
  if (!kind->joins) return kind->connect(address, options, deadline_ns);
  const uint32_t connections = options.connections != 0 ? options.connections : UsualConnections();
  return ConnectJoined(connections, [&] { return kind->connect(address, options, deadline_ns); });
}

Result<std::unique_ptr<LinkListener>> ListenForLinks(const LinkAddress& address, const LinkOptions& options, UniqueFd bound) {
  const LinkKind* kind = Find(address.scheme);
  if (kind == nullptr) return NotBuilt(address);
  Result<std::unique_ptr<LinkListener>> listener = kind->listen(address, options, std::move(bound));
  if (!listener.ok() || !kind->joins) return listener;
  return MakeJoiningListener(std::move(*listener));
}

DialSocket DialFor(const LinkAddress& address, const LinkOptions& options) {
  const LinkKind* kind = Find(address.scheme);
  if (kind == nullptr || !kind->has_socket) return {};
  const bool insecure = kind->insecure_socket || options.insecure;
  return [address, insecure](uint64_t deadline_ns) { return ConnectTcpSocket(address, insecure, deadline_ns); };
}

Result<UniqueFd> BindForLinks(const LinkAddress& address, const LinkOptions& options) {
  const LinkKind* kind = Find(address.scheme);
  if (kind == nullptr || !kind->has_socket) return UniqueFd();
  Result<TcpListener> listener = TcpListener::Bind(address, kind->insecure_socket || options.insecure);
  if (!listener.ok()) return listener.status();
  return listener->Release();
}

std::string WhoMayConnect(const LinkAddress& address) {
  if (address.scheme == LinkScheme::kTls) return "";
  Result<std::vector<TcpEndpoint>> endpoints = Resolve(address);
  const bool here = endpoints.ok() && std::ranges::all_of(*endpoints, [](const auto& one) { return one.IsLoopback(); });
  return here ? "every user of this host" : "everybody on its network";
}

}  // namespace tessera
