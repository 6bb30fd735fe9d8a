#include "netaware/admin/control_client.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <string_view>
#include <utility>

#include "programs/service_options.h"
#include "protocol/base/printable.h"
#include "protocol/link/link_address.h"
#include "protocol/link/typed_address.h"

namespace tessera {
namespace {

constexpr std::string_view kTls = "tls://";

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// The address as the user gave it; empty: none is given.
std::string Typed(const VgpuOptions& options) {
  if (!options.control.empty() || !options.server.empty()) return options.control;
  return Variable("TESSERA_CONTROL");
}

}  // namespace

Result<std::string> ControlUrl(const VgpuOptions& options) {
  const std::string typed = Typed(options);
  std::string url = AddressMeantBy(typed, kControlPort);
  std::string end;
  if (url.empty()) {
    url = options.server.empty() ? Variable("TESSERA_SERVER") : options.server;
    // A path alone is accepted, as by other commands. A network address is a gateway's, and a gateway has no control API.
    if (const std::string meant = AddressMeantBy(url); !UnixPathOf(meant).empty()) url = meant;
    end = ".control";
  }
  if (url.empty()) {
    return Status(
        StatusCode::kInvalidArgument,
        "no server is named: use --server unix:PATH, --control unix:PATH or --control tls://HOST:PORT, or set TESSERA_SERVER");
  }
  if (end.empty() && url.starts_with(kTls)) {
    Result<LinkAddress> address = LinkAddress::Parse(url);
    if (!address.ok()) return address.status();
    return url;
  }
  const std::string path = UnixPathOf(url);
  if (path.empty() || path.find(',') != std::string::npos) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("'{}' is no address of a control API: vGPUs are changed at unix:PATH of the server's host, or at "
                              "--control tls://HOST:PORT",
                              Printable(end.empty() ? typed : url)));
  }
  return url + end;
}

Result<ControlConnection> ConnectControl(const std::string& url, const VgpuOptions& options) {
  Result<RpcConnection> rpc =
      ConnectRpc(url, {options.certificate, options.key, options.authority}, RpcPeer(), "start tesserad, or correct the path");
  if (!rpc.ok()) {
    const std::string typed = Typed(options);
    const std::string taken = typed.empty() ? "" : TakenAs(typed, url);
    return Status(rpc.status().code(), rpc.status().message() + taken);
  }
  auto stub = control::v1::VgpuService::NewStub(rpc->channel);
  return ControlConnection{std::move(*rpc), std::move(stub)};
}

}  // namespace tessera
