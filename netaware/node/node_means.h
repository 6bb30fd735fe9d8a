// The node's actions outside its sandbox, which its helper carries out (protocol/keeper/helper.h). Any thread may call these
// functions, until the process ends.
//
//   Result<std::unique_ptr<HelperLine>> helper = StartNodeHelper(options);    // before the process starts a second thread
//   RETURN_IF_ERROR(EnterNodeSandbox(options));
//   RunNode(options, MeansBy(**helper), ...);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "netaware/node/options.h"
#include "protocol/base/status.h"
#include "protocol/keeper/helper.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

struct NodeMeans {
  RpcMeans placer;
  RpcMeans control;   // the broker's control API
  DialSocket server;  // as ConnectToServer()
  // ReplaceCertificate() for the node's own certificate.
  std::function<Status(const std::string& text)> replace_certificate;
};

// Words for the error sentences when a connection fails.
inline constexpr RpcPeer kPlacerPeer = {.what = "placer", .program = "tessera-placer"};
inline constexpr RpcPeer kControlPeer = {.what = "control API", .program = "tesserad's control API"};
inline constexpr const char* kWhenNoPlacer = "start tessera-placer, or correct --placer";
inline constexpr const char* kWhenNoControl = "start tesserad with --control, or correct --control";

// The helper may read the key files that `options` name, connect to the placer, the control API and the server, and replace the
// certificate.
Result<std::unique_ptr<HelperLine>> StartNodeHelper(const NodeOptions& options);
// `helper` has to outlive the returned functions.
NodeMeans MeansBy(HelperLine& helper);

// Called after the ledger is open. Errors as from EnterSandbox().
Status EnterNodeSandbox(const NodeOptions& options);

}  // namespace tessera
