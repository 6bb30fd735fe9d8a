// The options of a pool's commands. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netaware/job/job_options.h"

namespace tessera {

struct PoolOptions {
  std::string command;                 // one of AddPoolCommands(), status, top, or "keys"; empty: none was on the command line
  std::string what;                    // of get: servers, gpus, grants, requests; of describe: server, gpu, grant
  std::string action;                  // of grants: release, revoke; of keys: renew
  std::string grant;                   // of grants: its id
  std::string reason;                  // of grants, cordon, drain: the reason that jobs receive; empty: none
  std::string server;                  // of cordon, uncordon, drain, remove: its id
  std::optional<int64_t> deadline_ms;  // of drain, from now; nullopt: none
  bool dry_run = false;                // of drain, place
  JobOptions job;                      // of place
  std::string name;                    // of describe: of the server, the GPU or the grant; of keys: the files' directory
  std::string since, until;            // of events and audit: usage_time.h; empty: a day ago, and now
  std::string of;                      // of events and audit: a server, a grant or a holder; empty: all
  bool watch = false;                  // of get, events, audit, status: repeat
  double interval_s = 1;               // of top
  std::string sort;                    // of top for a server: the sort order; empty: session
  uint32_t count = 0;                  // of top: the number of outputs; 0: endless on a terminal, else one
  std::string placer;                  // unix:PATH or tls://HOST:PORT; empty: the result of FindPlacer()
  std::string certificate, key, authority;  // files for tls://; empty: the environment or the default
  std::string output = "text";              // or "wide" (of get, status, top), "json", "yaml"
};

}  // namespace tessera
