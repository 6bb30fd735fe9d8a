// Stands in for client-stub/device_work/device_work.h: the same interface, and says which streams were given work. For
// loopback_test alone.
#pragma once

#include <vector>

#include "client-stub/call/call.h"

namespace tessera {

class WorkOnAnything {
 public:
  explicit WorkOnAnything(Call& call) : call_(call) {}

  template <typename Request>
  CUresult Async(const Request& request) {
    for (const HandleId stream : request.Streams()) streams.push_back(stream.value());
    return call_.AsyncAny(request);
  }

  static inline std::vector<uint64_t> streams;

 private:
  Call& call_;
};

}  // namespace tessera
