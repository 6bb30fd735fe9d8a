#include "server/emulator/driver/graphs/graph_exec.h"

namespace tessera::emulator {

ExecNode* GraphExec::Find(uint64_t node_handle) {
  for (ExecNode& node : body->nodes) {
    if (node.node == node_handle) return &node;
  }
  return nullptr;
}

}  // namespace tessera::emulator
