// What tests of the control API share: a server in virtual time, and short forms of the calls.
#pragma once

#include <string>
#include <vector>

#include "server/broker/vgpu_api.h"
#include "tests/server/broker/virtual_workers.h"

namespace tessera {

// Two holders: the first is an administrator, the second is not.
inline constexpr const char* kRoot = "uid:0";
inline constexpr const char* kUser = "uid:1000";

// A server and its API. Create(), Update(), Delete() and Import() are calls of kRoot.
struct Served {
  using Kind = VgpuCall::Kind;

  explicit Served(const BrokerOptions& options = {}, size_t gpus = 1) : server(options, gpus) {}
  VgpuAnswer Do(const VgpuCall& call) { return DoAt(api, call); }
  // Does what the front does too: AnswerFrom() chooses what the caller sees of a list.
  VgpuAnswer DoAt(VgpuApi& other, const VgpuCall& call) {
    VgpuAnswer answer = other.Do(call, server.now_ns());
    return answer.all == nullptr ? answer : AnswerFrom(*answer.all, call, kAdministrators);
  }
  VgpuAnswer Create(const std::string& name, const VgpuFields& fields) {
    return Do({.kind = Kind::kCreate, .holder = kRoot, .name = name, .fields = fields});
  }
  VgpuAnswer Update(const std::string& name, const VgpuFields& fields, uint64_t revision = 0) {
    return Do({.kind = Kind::kUpdate, .holder = kRoot, .name = name, .fields = fields, .revision = revision});
  }
  VgpuAnswer Delete(const std::string& name, bool force = false, uint32_t grace_s = 0) {
    return Do({.kind = Kind::kDelete, .holder = kRoot, .name = name, .force = force, .grace_s = grace_s});
  }
  VgpuAnswer Import(const std::string& text, const std::string& request_id = "") {
    return Do({.kind = Kind::kImport, .holder = kRoot, .request_id = request_id, .text = text, .path = "my.toml"});
  }
  std::vector<std::string> Names(const std::string& holder) {
    std::vector<std::string> names;
    for (const ShownVgpu& view : Do({.kind = Kind::kList, .holder = holder}).vgpus) names.push_back(view.vgpu.spec.name);
    return names;
  }

  VirtualServer server;
  const std::vector<std::string> kAdministrators = {kRoot, "name:boss"};
  VgpuApi api{server.broker(), kAdministrators};
};

}  // namespace tessera
