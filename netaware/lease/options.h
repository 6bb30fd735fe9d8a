// The command line of tessera-lease.
#pragma once

#include <string>

#include "netaware/job/job_options.h"
#include "programs/service_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

struct LeaseOptions : ServiceOptions {
  JobOptions job;
  LinkOptions link;         // keys for tls://
  std::string listen_path;  // a path in the job's directory; nothing listens there

  std::string directory() const;
};

// Returns what ServiceCommandLine::Parse() returns.
int ParseOptions(int argc, char** argv, LeaseOptions* options);

}  // namespace tessera
