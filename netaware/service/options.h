// The command line of tessera-placer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "programs/service_options.h"
#include "protocol/link/link_options.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct PlacerOptions : ServiceOptions {
  std::vector<std::string> unix_paths;  // from --listen unix:PATH
  std::vector<std::string> tls_urls;    // from --listen tls://HOST:PORT
  LinkOptions link;                     // the keys for tls_urls
  std::string store_path;               // from --store sqlite:PATH; empty: memory
  std::string policy_path;              // from --policy; empty: none
  std::string cluster = "default";
  uint32_t ticket_s = 600;
  uint32_t audit_days = 90;
  std::string sign_with;  // from --sign-with: the directory of an authority; empty: nothing is signed
  uint32_t sign_days = 7;
  SandboxMode sandbox = SandboxMode::kAuto;
};

// Result as of ServiceCommandLine::Parse().
int ParseOptions(int argc, char** argv, PlacerOptions* options);

}  // namespace tessera
