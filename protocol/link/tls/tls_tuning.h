// Settings of a TLS link. Only tests and benchmarks change the defaults.
#pragma once

#include <cstdint>

#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/link/tls/tls_crew.h"

namespace tessera {

// Records under one key; then the next key follows (RFC 8446, 5.5: at most 2^24.5 with this cipher).
inline constexpr uint64_t kTlsRecordsPerKey = uint64_t{1} << 22;

struct TlsTuning {
  uint64_t records_per_key = kTlsRecordsPerKey;
  TlsCrew* crew = &TlsCrew::OfProcess();  // outlives the stream
  bool openssl = false;                   // OpenSSL's records instead of ours; they do not use the crew
};

// The kind of records that `options`, or else the environment, ask for. kInvalidArgument: an unknown word.
Result<TlsTuning> TuningOf(const LinkOptions& options, TlsTuning tuning = {});

}  // namespace tessera
