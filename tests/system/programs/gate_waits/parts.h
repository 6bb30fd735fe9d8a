// What the cases are made of: kernels, numbers in device memory, streams.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "../check.h"

namespace gate_waits {

using Clock = std::chrono::steady_clock;

struct Options {
  uint32_t launches = 30;
  uint64_t kernel_us = 3000;
  uint32_t rounds = 20;
  double seconds = 1;
  std::string peer_vgpu;
};
extern Options options;

// Loads the kernels, and has everything on the device before something waits there: a driver that loads late would wait for it.
void LoadAll();

// Counts itself in `sum` only if `flag` stands: what has overtaken its wait is missing there.
void Step(CUstream stream, CUdeviceptr flag, CUdeviceptr sum, uint64_t duration_us = options.kernel_us);
// Ends once the flag is that large.
void AwaitFlag(CUstream stream, CUdeviceptr flag, uint32_t value);
void SetFlag(CUstream stream, CUdeviceptr flag, uint32_t value);

CUstream NewStream();

// Numbers in device memory, zeros at first. Each has a place of its own.
struct Words {
  CUdeviceptr base = 0;
  Words();
  ~Words();
  CUdeviceptr at(int i) const { return base + static_cast<CUdeviceptr>(i) * 64; }
  uint32_t Read(int i) const;
  void Write(int i, uint32_t value) const;
};
enum Place { kFlag, kSum, kOther };

// How long a step takes is known afterwards. Its sum is one of nobody's.
void Learn(CUstream stream);

// Prints a line, and waits for one.
void AwaitLine(const char* what);

}  // namespace gate_waits
