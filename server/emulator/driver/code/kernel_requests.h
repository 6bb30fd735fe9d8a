// What kernels ask of graphs: to launch one, and to change nodes. Any thread, where nothing else is said.
// Source: driver 580.159.04 on an H200; CUDA driver API, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "server/emulator/ptx/run/launch.h"

namespace tessera::emulator {

// Results, as numbers of cudaError_t.
inline constexpr uint32_t kRequestDone = 0, kRequestInvalid = 1;

// What kernels have changed of a node in the instance of its graph. Any thread.
class NodeChanges {
 public:
  // `parameter_bytes`: all that the kernel has.
  explicit NodeChanges(size_t parameter_bytes) : parameter_bytes_(parameter_bytes) {}
  // Kernels may change it once the instance was uploaded.
  void Upload();
  // The host has given it other parameters: what kernels have changed is gone.
  void Reset();
  // The results are numbers of cudaError_t.
  uint32_t SetParameter(uint64_t offset_bytes, std::span<const std::byte> value);
  uint32_t SetEnabled(bool enabled);
  uint32_t SetGrid(const Dim3& grid);
  // Changes what a launch runs now. False: it runs nothing.
  bool Apply(Dim3* grid, std::vector<std::byte>* parameters);

 private:
  struct Parameter {
    uint64_t offset_bytes;
    std::vector<std::byte> value;
  };
  std::mutex mutex_;
  bool uploaded_ = false;
  bool enabled_ = true;
  std::optional<Dim3> grid_;
  std::vector<Parameter> parameters_;
  const size_t parameter_bytes_;
};
// New ones, of the node with this handle; earlier ones are forgotten. With Driver::graph_mutex held.
std::shared_ptr<NodeChanges> AddNodeChanges(uint64_t node, size_t parameter_bytes);

// What a kernel in no graph can ask for: to change nodes. One in a graph gets more (GraphRun).
class KernelRequests : public GraphSink {
 public:
  // That of the graph whose nodes the calling thread runs; null: none.
  static KernelRequests* Current();

  uint64_t current() const override { return 0; }
  uint32_t Launch(uint64_t, uint64_t) override { return kRequestInvalid; }
  uint32_t SetParameter(uint64_t node, uint64_t offset_bytes, std::span<const std::byte> value) override;
  uint32_t SetEnabled(uint64_t node, bool enabled) override;
  uint32_t SetGrid(uint64_t node, const Dim3& grid) override;

 protected:
  // Makes `requests` the calling thread's for as long as this lives, then again what was before.
  class Scope {
   public:
    explicit Scope(KernelRequests* requests);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    KernelRequests* const outer_;
  };
};

}  // namespace tessera::emulator
