// Runs programs with the CUDA driver API.
#pragma once

#include <cuda.h>

#include <mutex>
#include <string>
#include <vector>

#include "model.h"
#include "other_process.h"
#include "program.h"

namespace order_programs {

// What the programs of successive seeds share: streams, events, buffers, all of one size.
class World {
 public:
  // Kernels wait so long before they touch memory, so that a fast device is late as well. `other` opens the shared buffer if it
  // may.
  World(CUfunction kernel, size_t buffer_bytes, unsigned wait_us, OtherProcess* other);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Why the second process has not opened the shared buffer; success where it has.
  CUresult shared() const { return shared_; }

  // What differs from the model, in words; empty where nothing does. A call that fails ends the process.
  std::string Run(const Program& program, const Model& model);

 private:
  struct HostCall {
    World* world;
    const Operation* operation;
    const Model* model;
  };

  void Allocate(int buffer);
  void Begin(const Program& program, const std::vector<bool>& used);
  void RunThread(const Program& program, const Model& model, size_t begin, size_t end, int thread);
  void Do(const Operation& operation, const Model& model);
  void Copy(const Operation& operation, CUstream stream);
  void CopyInBatch(const Operation& operation, CUdeviceptr to, CUdeviceptr from, CUstream stream);
  void Set(const Operation& operation, CUstream stream);
  void Launch(const Operation& operation, CUstream stream);
  void LaunchGraph(const Operation& operation);
  void HostAccess(const Operation& operation, const Model& model);
  void Flag(const Operation& operation, CUstream stream);
  void Prefetch(const Operation& operation, CUstream stream);
  void WorkElsewhere(const Operation& operation, const Model& model);
  CUstream StreamOf(const Operation& operation) const;
  unsigned char* Host(const Region& region) const { return host_[region.buffer] + region.offset; }
  CUdeviceptr Device(const Region& region);
  void Compare(const std::string& where, int buffer, size_t offset, const unsigned char* found, const unsigned char* expected,
               size_t bytes, const Model& model);
  void Check(CUresult result, const char* call) const;

  const CUfunction kernel_;
  const size_t bytes_;
  const unsigned wait_us_;
  OtherProcess* const other_;
  CUresult shared_ = CUDA_ERROR_NOT_INITIALIZED;
  CUcontext context_ = nullptr;
  CUstream streams_[kStreamCount] = {};
  CUstream captures_[2] = {};  // one for each thread
  CUevent events_[kEventCount] = {};
  CUdeviceptr flags_ = 0;  // kFlagCount words
  unsigned char* host_[kBufferCount] = {};
  unsigned char* memory_[kBufferCount] = {};  // what was registered lies in it
  CUdeviceptr device_[kBufferCount] = {};     // of host memory when it was asked for
  std::vector<CUgraphExec> graphs_;           // guarded by mutex_
  std::mutex capture_mutex_;                  // held while work is captured: nobody may synchronise the context meanwhile
  std::mutex mutex_;
  std::string difference_;  // the first one; guarded by mutex_
  const Program* program_ = nullptr;
};

// The kernel of Kind::kKernel, of the primary context of device 0, which becomes current.
CUfunction LoadOrderKernel();

}  // namespace order_programs
