#include "netaware/node/node_means.h"

#include <signal.h>

#include "netaware/identity/key_renewal.h"
#include "protocol/base/log.h"
#include "protocol/channel/server_user.h"
#include "protocol/link/tls/key_files.h"
#include "protocol/link/tls/tls_certificate.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {
namespace {

constexpr const char* kPlacer = "placer";
constexpr const char* kControl = "control API";
constexpr const char* kServer = "server";
constexpr const char* kReplace = "replace the certificate";

}  // namespace

Result<std::unique_ptr<HelperLine>> StartNodeHelper(const NodeOptions& options) {
  HelperOptions helper;
  helper.places[kPlacer] = [url = options.placer](uint64_t deadline_ns) {
    return DialRpc(url, kPlacerPeer, kWhenNoPlacer, deadline_ns);
  };
  helper.places[kControl] = [url = options.control](uint64_t deadline_ns) {
    return DialRpc(url, kControlPeer, kWhenNoControl, deadline_ns);
  };
  helper.places[kServer] = [path = options.server_path](uint64_t) { return ConnectToServer(path); };
  if (options.placer.starts_with("tls://")) {
    LinkOptions link;
    link.keys = options.keys;
    helper.files = FilesOf(TlsRole::kClient, link);
    helper.acts[kReplace] = [path = helper.files.front()](const std::string& text) { return ReplaceCertificate(path, text); };
    helper.text_bytes_max = kPemBytesMax;
  }
  return HelperLine::Start(std::move(helper));
}

NodeMeans MeansBy(HelperLine& helper) {
  const auto to = [&helper](const char* place) {
    return [&helper, place](uint64_t deadline_ns) { return helper.Dial(place, deadline_ns); };
  };
  const auto open = [&helper](const std::string& path) { return helper.OpenFile(path); };
  return {.placer = {.open_file = open, .dial = to(kPlacer)},
          .control = {.open_file = {}, .dial = to(kControl)},
          .server = to(kServer),
          .replace_certificate = [&helper](const std::string& text) { return helper.Act(kReplace, text); }};
}

Status EnterNodeSandbox(const NodeOptions& options) {
  SandboxOptions sandbox = ServiceSandbox(Service::kNode, options.sandbox, options.private_root);
  sandbox.who = "nodes";
  sandbox.root_option = "";
  // A node that was started by hand does not end with its parent.
  sandbox.parent_death_signal = options.daemon_fd >= 0 ? SIGKILL : 0;
  SandboxReport report;
  RETURN_IF_ERROR(EnterSandbox(sandbox, &report));
  if (!report.protection.empty()) LogDebug("the sandbox of this process: {}", report.protection);
  // tesserad has already logged these gaps for a node that it started.
  const LogLevel level = options.daemon_fd >= 0 ? LogLevel::kDebug : LogLevel::kWarning;
  for (const std::string& gap : report.gaps) Log(level, "the sandbox of this process is not complete: {}", gap);
  return Status::Ok();
}

}  // namespace tessera
