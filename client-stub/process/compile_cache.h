// What compilers in this process (NVRTC, nvJitLink) keep from one run to the next: results by everything that they were made
// from, as files of the user's. The real driver keeps them for them likewise; without it a program that compiles at start
// (cuDNN's attention: half a second for each shape) does so every time.
//
// Environment as of the driver's own cache (CUDA C Programming Guide, "CUDA Environment Variables"): CUDA_CACHE_DISABLE,
// CUDA_CACHE_PATH (default ~/.nv/ComputeCache), CUDA_CACHE_MAXSIZE; files lie in a directory `tessera` there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client-stub/process/process_part.h"

namespace tessera {

class CompileCache {
 public:
  static constexpr uint64_t kDefaultBytesMax = uint64_t{1} << 30;

  // That of the process.
  static const CompileCache& Process() { return PartOfProcess<CompileCache>::Get(); }

  // `directory` is made when something is first kept; empty: nothing is ever kept. When more than `bytes_max` would be kept, the
  // results that were used longest ago go.
  CompileCache(std::string directory, uint64_t bytes_max) : directory_(std::move(directory)), bytes_max_(bytes_max) {}

  // Any thread and any number of processes, as everything here. False: not known, or its file cannot be read or is damaged.
  bool Load(std::string_view key, std::vector<std::byte>* result) const;
  // A result that cannot be kept is not: no compiler depends on it.
  void Store(std::string_view key, std::span<const std::byte> result) const;

 private:
  std::string PathOf(std::string_view key) const;
  // Removes what was used longest ago until at most `bytes_max` are left.
  void Trim(uint64_t bytes_max) const;

  const std::string directory_;
  const uint64_t bytes_max_;
};

}  // namespace tessera
