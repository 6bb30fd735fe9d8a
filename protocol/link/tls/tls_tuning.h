// How a TLS link goes about it; the defaults are for everybody but tests and benchmarks.
#pragma once

#include <cstdint>

#include "protocol/link/tls/tls_crew.h"

namespace tessera {

struct TlsTuning {
  // Sealed under one key, then the next follows (RFC 8446, 5.5: at most 2^24.5 with this cipher).
  uint64_t records_per_key = uint64_t{1} << 22;
  TlsCrew* crew = &TlsCrew::OfProcess();  // outlives the stream
};

}  // namespace tessera
