// Keeps results of compilers in this process (NVRTC, nvJitLink) from one run to the next, as files of the user. The key is all
// that a result was made from. The real driver has such a cache; without one a program that compiles at start (cuDNN's attention:
// half a second for each shape) would do so every time.
//
// It obeys the variables of the driver's own cache (CUDA C Programming Guide, "CUDA Environment Variables"): CUDA_CACHE_DISABLE,
// CUDA_CACHE_PATH (default ~/.nv/ComputeCache) and CUDA_CACHE_MAXSIZE. Files lie in the directory `tessera` there.
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

  // `directory` is made when the first result is kept; empty: nothing is kept. Beyond `bytes_max` the results that were used
  // longest ago are removed.
  CompileCache(std::string directory, uint64_t bytes_max) : directory_(std::move(directory)), bytes_max_(bytes_max) {}

  // False: the key is not known, or its file cannot be read or is damaged. Any thread and any number of processes, as everything
  // here.
  bool Load(std::string_view key, std::vector<std::byte>* result) const;
  // Keeps a result. A failure is ignored: no compiler depends on it.
  void Store(std::string_view key, std::span<const std::byte> result) const;

 private:
  std::string PathOf(std::string_view key) const;
  // Removes the results that were used longest ago until at most `bytes_max` are left.
  void Trim(uint64_t bytes_max) const;

  const std::string directory_;
  const uint64_t bytes_max_;
};

}  // namespace tessera
