// The settings of core dumps (cuCoredump*): values of the process, and of each context that changed one. The process that drives
// the GPU writes its core dump. That process is the server's, on the server's host, so core dumps are never enabled here. The
// other settings are only remembered. Any thread. Sizes and codes as measured on driver 580. Source: CUDA driver API, "Coredump
// Attributes Control API".
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <string>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"

namespace tessera {

class CoredumpSettings {
 public:
  static CoredumpSettings& Process() { return PartOfProcess<CoredumpSettings>::Get(); }

  static bool IsAttribute(CUcoredumpSettings attribute);
  // Whether contexts have values of their own. The other settings belong to the process.
  static bool IsOfContexts(CUcoredumpSettings attribute);

  // `context`: a context's number; 0: the values for contexts without settings of their own. `value` null: writes only the size.
  // CUDA_ERROR_INVALID_VALUE: no such attribute, or `*size` is wrong (for a name: too small).
  CUresult Get(uint64_t context, CUcoredumpSettings attribute, void* value, size_t* size) const EXCLUDES(mutex_);
  // CUDA_ERROR_NOT_SUPPORTED: the server's process would have to write a core dump.
  CUresult Set(uint64_t context, CUcoredumpSettings attribute, const void* value, const size_t* size) EXCLUDES(mutex_);

 private:
  struct Values {
    bool trigger_host = true;
    bool lightweight = false;
    int generation_flags = CU_COREDUMP_DEFAULT_FLAGS;
    std::string file;  // empty: the driver tells its default only where it writes one
    std::string pipe;
  };
  const Values& Of(uint64_t context) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  Values process_ GUARDED_BY(mutex_);
  std::map<uint64_t, Values> contexts_ GUARDED_BY(mutex_);
};

}  // namespace tessera
