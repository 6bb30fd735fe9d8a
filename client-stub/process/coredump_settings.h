// The settings of core dumps (cuCoredump*): values of the process, and of each context that changed one. The GPU's core dump
// is written by the process that drives it, which is the server's, into a directory of the server's host: so none is ever
// enabled here, and what says how one would look is only remembered.
// Any thread. Sizes and codes as measured on driver 580.
// Source: CUDA driver API, "Coredump Attributes Control API".
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
  // The others are of the process alone.
  static bool IsOfContexts(CUcoredumpSettings attribute);

  // `context` is a context's number, 0: those that contexts without settings of their own have. `value` null: only the size
  // that it needs. CUDA_ERROR_INVALID_VALUE: no such attribute, or `*size` is not that of its value (of a name: too small).
  CUresult Get(uint64_t context, CUcoredumpSettings attribute, void* value, size_t* size) const EXCLUDES(mutex_);
  // CUDA_ERROR_NOT_SUPPORTED for what would make the server's process write a core dump.
  CUresult Set(uint64_t context, CUcoredumpSettings attribute, const void* value, const size_t* size) EXCLUDES(mutex_);

 private:
  struct Values {
    bool trigger_host = true;
    bool lightweight = false;
    int generation_flags = CU_COREDUMP_DEFAULT_FLAGS;
    std::string file;  // empty: the driver says its default only where it writes one
    std::string pipe;
  };
  const Values& Of(uint64_t context) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  Values process_ GUARDED_BY(mutex_);
  std::map<uint64_t, Values> contexts_ GUARDED_BY(mutex_);
};

}  // namespace tessera
