// What the calls of the control API do (protocol/control/vgpu.proto), without anything that travels: who may, what is in force
// then, what is answered.
//
//   VgpuApi api(broker, {"uid:0"});
//   const VgpuAnswer answer = api.Do({.kind = VgpuCall::Kind::kCreate, .holder = "uid:0", .name = "train", ...}, now_ns);
//
// Administrators make, change and delete vGPUs, and see all; anybody else sees those whose owner he is, and others are not there
// for him. A change with a request id that was there before is the same answer again, and nothing is done: also where a broker
// before this one has answered (Broker::answered()).
//
// Belongs to the thread of the broker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/broker/broker.h"
#include "server/broker/vgpu_call.h"

namespace tessera {

class VgpuApi {
 public:
  // `administrators`: holders. `broker` outlives it.
  VgpuApi(Broker& broker, std::vector<std::string> administrators)
      : broker_(broker), administrators_(std::move(administrators)) {}

  // Of kGet and kList: `all` alone, so that the broker's thread copies nothing for those who look; the rest is AnswerFrom()'s.
  VgpuAnswer Do(const VgpuCall& call, int64_t now_ns);
  // All vGPUs, by name. The same object as long as nothing has changed.
  VgpuList All();

 private:
  VgpuAnswer Change(const VgpuCall& call, int64_t now_ns);
  VgpuAnswer Act(const VgpuCall& call, int64_t now_ns);
  VgpuAnswer Create(const VgpuCall& call, int64_t now_ns);
  VgpuAnswer Update(const VgpuCall& call, int64_t now_ns);
  VgpuAnswer Delete(const VgpuCall& call, int64_t now_ns);
  VgpuAnswer Import(const VgpuCall& call, int64_t now_ns);
  VgpuAnswer Put(const FileVgpu& vgpu, int64_t now_ns);
  // Why none of this name can be made on that GPU; null: one can.
  std::optional<VgpuAnswer> NameIsTaken(const std::string& name, uint32_t gpu) const;
  // Why this one cannot be changed; null: it can.
  std::optional<VgpuAnswer> Refusal(const VgpuCall& call, const BookedVgpu* there) const;
  ShownVgpu ViewOf(const BookedVgpu& vgpu) const;
  static ShownVgpu ViewOf(const std::string& name, const VgpuBook::Aside& aside);
  std::string NotInForce(const std::string& name) const;
  Gpu::Memory MemoryOf(const std::string& name) const;

  GpuList Gpus();

  Broker& broker_;
  GpuList gpus_;
  const std::vector<std::string> administrators_;
  std::optional<std::string> to_keep_;  // of the change that is being made: as Broker::SayKept() takes it
  VgpuList all_;                        // as of all_changes_
  uint64_t all_changes_ = 0;
};

// The answer to a kGet or kList: what the caller sees of `all`. Pure; any thread.
VgpuAnswer AnswerFrom(const std::vector<ShownVgpu>& all, const VgpuCall& call, const std::vector<std::string>& administrators);
// Whether this holder sees it.
bool MaySee(const ShownVgpu& view, std::string_view holder, const std::vector<std::string>& administrators);

}  // namespace tessera
