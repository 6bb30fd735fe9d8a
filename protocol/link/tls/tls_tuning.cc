#include "protocol/link/tls/tls_tuning.h"

#include <stdlib.h>

namespace tessera {

Result<TlsTuning> TuningOf(const LinkOptions& options, TlsTuning tuning) {
  const char* configured = getenv("TESSERA_TLS_RECORDS");
  const bool by_option = !options.tls_records.empty();
  const std::string word = by_option ? options.tls_records : configured != nullptr ? configured : "";
  if (word == "openssl") {
    tuning.openssl = true;
  } else if (word != "own" && !word.empty()) {
    return Status(StatusCode::kInvalidArgument, (by_option ? "--tls-records" : "TESSERA_TLS_RECORDS") +
                                                    std::string(" takes own or openssl, not '") + word + "'");
  }
  return tuning;
}

}  // namespace tessera
