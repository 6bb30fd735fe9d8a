// What the node does beyond its sandbox, by way of its helper (protocol/keeper/helper.h): functions that any thread may call, as
// long as the process lives.
//
//   Result<std::unique_ptr<HelperLine>> helper = StartNodeHelper(options);    // before the second thread
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
  // As ReplaceCertificate() of the node's own.
  std::function<Status(const std::string& text)> replace_certificate;
};

// What a node says when nobody listens there.
inline constexpr RpcPeer kPlacerPeer = {.what = "placer", .program = "tessera-placer"};
inline constexpr RpcPeer kControlPeer = {.what = "control API", .program = "tesserad's control API"};
inline constexpr const char* kWhenNoPlacer = "start tessera-placer, or correct --placer";
inline constexpr const char* kWhenNoControl = "start tesserad with --control, or correct --control";

// It may read the files of keys that `options` name, connect to the placer, the control API and the server, and replace the
// certificate.
Result<std::unique_ptr<HelperLine>> StartNodeHelper(const NodeOptions& options);
// `helper` outlives them.
NodeMeans MeansBy(HelperLine& helper);

// After the ledger was opened. Errors as of EnterSandbox().
Status EnterNodeSandbox(const NodeOptions& options);

}  // namespace tessera
