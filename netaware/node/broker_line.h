// The node's connection to the control API of its server's broker. It reconnects whenever the connection ends.
//
//   BrokerLine line("unix:/run/tessera/tessera.sock.control", "/run/tessera/tessera.sock", means, queue, {...});
//   line.Start();
//   line.Call(call);
//
// All methods are called in the node's thread, and the listener's functions run there too. A separate thread connects, and
// queries the server for the description of its GPUs; that thread runs until the process ends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generated/control/vgpu.grpc.pb.h"
#include "netaware/node/grant_vgpus.h"
#include "netaware/node/node_means.h"
#include "netaware/node/node_queue.h"
#include "netaware/node/server_vgpus.h"
#include "protocol/base/status.h"
#include "protocol/wire/server_query.h"

namespace tessera {

class BrokerLine {
 public:
  static constexpr int kAnswerS = 5;  // the deadline of one call, in s

  struct Listener {
    std::function<void(std::map<std::string, ServerDevice>)> described;  // by GPU UUID; called before the first list
    std::function<void(ServerVgpus)> list;
    std::function<void(const std::string& vgpu, const Status&)> done;  // as GrantVgpus::CallDone() takes it
    std::function<void()> lost;
  };

  // `queue` has to outlive all threads of the process.
  BrokerLine(std::string control_url, std::string server_path, NodeMeans means, NodeQueue& queue, Listener listener)
      : control_url_(std::move(control_url)),
        server_path_(std::move(server_path)),
        means_(std::move(means)),
        queue_(queue),
        listener_(std::move(listener)) {}

  // Called once.
  void Start();
  void Call(const GrantVgpus::Call& call);

 private:
  using Stub = control::v1::VgpuService::Stub;

  void Run();
  Status Follow(bool* was_there);
  Result<ServerReport> AskServer(const ServerQuery& query) const;
  std::vector<std::vector<ServerReport::Value>> LinksOf(size_t devices) const;

  const std::string control_url_;
  const std::string server_path_;
  const NodeMeans means_;
  NodeQueue& queue_;
  const Listener listener_;
  std::shared_ptr<Stub> stub_;  // used by the node's thread alone; null: no broker is connected
};

}  // namespace tessera
