// How a TLS link goes about it; the defaults are for everybody but tests and benchmarks.
#pragma once

#include <cstdint>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tls/tls_crew.h"

namespace tessera {

// Sealed under one key, then the next follows (RFC 8446, 5.5: at most 2^24.5 with this cipher).
inline constexpr uint64_t kTlsRecordsPerKey = uint64_t{1} << 22;

struct TlsTuning {
  uint64_t records_per_key = kTlsRecordsPerKey;
  TlsCrew* crew = &TlsCrew::OfProcess();  // outlives the stream
  bool openssl = false;                   // OpenSSL's records instead of ours, which have no use for the crew
};

// As `options`, or else the environment, want the records. kInvalidArgument for a word that is none.
Result<TlsTuning> TuningOf(const LinkOptions& options, TlsTuning tuning = {});

}  // namespace tessera
