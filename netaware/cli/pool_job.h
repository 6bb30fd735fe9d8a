// A job whose GPUs a placer finds: the lease that has the job's grant.
#pragma once

#include <string>

#include "netaware/cli/install_layout.h"
#include "netaware/cli/server_check.h"
#include "netaware/job/job_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

struct PoolJob {
  std::string servers;  // as --server takes them
  std::string tickets;  // a file for each, as TESSERA_TICKET has them
  std::string text;     // for people

  // Asks the placer `url`, and waits until the job has its GPUs, which it has until the calling process ends. A problem with an
  // empty sentence when the lease has said on stderr what is wrong. `link`: keys for tls://.
  static ServerProblem Start(const InstallLayout& layout, const std::string& url, const JobOptions& options,
                             const LinkOptions& link, PoolJob* job);
};

}  // namespace tessera
