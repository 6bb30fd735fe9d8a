// Renews the certificate by which a node is known at its placer, when a third of its life is left: at a placer that signs
// (tessera-placer --sign-with). The placer's connection is one of its own; streams that are there go on.
#pragma once

#include <cstdint>
#include <string>

#include "netaware/node/node_means.h"
#include "protocol/link/link_options.h"

namespace tessera {

class KeyWatch {
 public:
  static constexpr int kLookMs = 10'000;   // between two looks at the file
  static constexpr int kAgainMs = 60'000;  // after a renewal that was refused, or failed: a line in the log, once for each reason
  static constexpr uint64_t kWaitNs = 10'000'000'000;

  // Starts a thread that goes on until the process ends. Does nothing where the placer is not at tls://.
  static void Start(const std::string& url, const KeyFiles& keys, const NodeMeans& means);
};

}  // namespace tessera
