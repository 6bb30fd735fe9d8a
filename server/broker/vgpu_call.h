// A call of the control API (protocol/control/vgpu.proto), and its answer, without anything that travels.
//
// Plain values; each used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/broker/gpu.h"
#include "server/broker/vgpu_annotations.h"
#include "server/broker/vgpu_book.h"
#include "server/gate/answered_requests.h"

namespace tessera {

// The numbers are those of gRPC.
enum class CallCode : uint32_t {
  kOk = 0,
  kInvalidArgument = 3,
  kNotFound = 5,  // also another's: the same words
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,  // the file made it, or sessions use it
  kAborted = 10,            // an old revision, or a request id with other content
  kUnavailable = 14,        // too much at once
};

// The only one that there is: programs of several vGPUs are in processes of their own, and one vGPU has the GPU at a time.
inline constexpr std::string_view kIsolation = "strict";

// What a vGPU is to be. What is not there stays as it is, or is the default of a new one.
struct VgpuFields {
  std::optional<std::string> gpu{};        // as FindGpu() takes it; only of a new one. Default 0
  std::optional<double> request{};         // default: of BrokerOptions
  std::optional<double> limit{};           // default 1
  std::optional<uint64_t> memory_bytes{};  // 0: no limit; default: as much of the GPU's as `request` is of its time
  std::optional<std::string> priority{}, overrun{};
  std::optional<std::string> isolation{};            // kIsolation
  std::optional<uint32_t> max_sessions{};            // that are in it at a time; 0: no limit, the default
  std::optional<uint32_t> processes{};               // whose contexts have room beside the memory; default 1
  std::optional<std::vector<std::string>> owners{};  // default: all who may use the server
  VgpuAnnotations annotations{};                     // other words for fields, which need not be there then

  friend bool operator==(const VgpuFields&, const VgpuFields&) = default;
};

struct VgpuCall {
  static constexpr size_t kRequestIdBytesMax = AnsweredRequest::kIdBytesMax;
  static constexpr size_t kOwnersMax = 64;
  static constexpr uint32_t kGraceSMax = 86'400;
  static constexpr size_t kTextBytesMax = 64 * 1024;
  static constexpr size_t kPathBytesMax = 1'024;  // that are shown
  enum class Kind { kCreate, kUpdate, kDelete, kImport, kGet, kList };
  Kind kind = Kind::kList;
  std::string holder{};      // who calls (protocol/wire/holder.h)
  std::string request_id{};  // of the first four; empty: each call counts
  std::string name{};        // of all but kImport and kList
  VgpuFields fields{};       // of kCreate and kUpdate
  uint64_t revision = 0;     // of kUpdate and kDelete: the one that is changed; 0: whatever there is
  bool force = false;        // of kDelete: sessions that use it are ended
  uint32_t grace_s = 0;      // and how long they have before
  std::string text{};        // of kImport: a file of vGPUs (vgpu_file.h), all of which are made, or none
  std::string path{};        // and its name, for sentences

  friend bool operator==(const VgpuCall&, const VgpuCall&) = default;
};

struct ShownVgpu {
  BookedVgpu vgpu{};
  std::string gpu{};  // GpuName()
  uint32_t sessions = 0;
  std::string problem{};  // why it is not in force, and has no more than a name; empty: it is

  friend bool operator==(const ShownVgpu&, const ShownVgpu&) = default;
};
// As ServerGpu of protocol/control/vgpu.proto.
struct ShownGpu {
  std::string uuid{};
  uint64_t memory_for_vgpus_bytes = 0;
  uint64_t context_bytes = 0;
  double kept_share = 0;
  std::vector<std::string> priorities{};  // that its policy tells apart

  friend bool operator==(const ShownGpu&, const ShownGpu&) = default;
};
using GpuList = std::shared_ptr<const std::vector<ShownGpu>>;
using VgpuList = std::shared_ptr<const std::vector<ShownVgpu>>;
struct VgpuAnswer {
  CallCode code = CallCode::kOk;
  std::string sentence{};          // of an error: field, value, by how much
  std::vector<ShownVgpu> vgpus{};  // as it is now; of kDelete: as it was; of kImport: those that were made, by name
  VgpuList all{};                  // of kGet and kList alone: what AnswerFrom() chooses from
  GpuList gpus{};                  // likewise; the same as long as the broker lives
  std::optional<Gpu::Memory>
      memory{};  // of kGet alone: what the sessions of that vGPU hold now, whether or not the caller may see it

  friend bool operator==(const VgpuAnswer&, const VgpuAnswer&) = default;
};

}  // namespace tessera
