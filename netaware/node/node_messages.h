// Converts between the messages of protocol/control and the values of the node's core. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "generated/control/node.pb.h"
#include "generated/control/vgpu.pb.h"
#include "netaware/node/node_core.h"

namespace tessera {

// The description of a server, without its vGPUs.
struct NodeServer {
  std::string server{};  // the host id
  std::string host{};    // HostDigest()
  std::vector<std::string> addresses{};
  std::map<std::string, ServerDevice> devices{};  // by GPU UUID
  bool takes_tickets = true;                      // its tesserad asks this node to check tickets
};

ServerVgpus VgpusOf(const control::v1::VgpuList& list);
control::v1::CreateRequest CreateOf(const WantedVgpu& vgpu);

NodeWelcome WelcomeOf(const control::v1::Welcome& message);
NodeOrder OrderOf(const control::v1::Order& message);
control::v1::FromNode MessageOf(const NodeBeat& beat);
control::v1::FromNode MessageOf(uint64_t order, const Status& status);
control::v1::FromNode RegistrationOf(const NodeServer& server, const std::vector<ServerGpu>& gpus, const NodeBeat& beat);

}  // namespace tessera
