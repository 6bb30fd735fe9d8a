// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// Every function that cuGetProcAddress knows, in each version (cudaTypedefs.h). Constant; any thread.
#pragma once

#include <span>

namespace tessera {

struct ProcAddress {
  const char* name;      // without version suffix; rows are sorted by name, then by `since`
  int since;             // CUDA version that introduced this variant, as 12000
  void* function;        // the stream 0 of this form is the legacy stream
  int per_thread_since;  // 0 where there is no per-thread form
  void* per_thread;      // the form whose stream 0 is the calling thread's own; may be null
};

std::span<const ProcAddress> ProcAddresses();

}  // namespace tessera
