// What the commands of a pool were asked for. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netaware/job/job_options.h"

namespace tessera {

struct PoolOptions {
  std::string command;                      // of AddPoolCommands(), status, top, or "keys"; empty: none was on the command line
  std::string what;                         // of get: servers, gpus, grants, requests; of describe: server, gpu, grant
  std::string action;                       // of grants: release, revoke; of keys: renew
  std::string grant;                        // of grants: its id
  std::string reason;                       // of grants, cordon, drain: what jobs are told; empty: nothing
  std::string server;                       // of cordon, uncordon, drain, remove: its id
  std::optional<int64_t> deadline_ms;       // of drain, from now; nothing: never
  bool dry_run = false;                     // of drain, place
  JobOptions job;                           // of place
  std::string name;                         // of describe: of the server, the GPU or the grant; of keys: the files' directory
  std::string since, until;                 // of events and audit: usage_time.h; empty: a day ago, and now
  std::string of;                           // of events and audit: a server, a grant or a holder; empty: all
  bool watch = false;                       // of get, events, audit, status: again and again
  double interval_s = 1;                    // of top
  std::string sort;                         // of top, of a server: what comes first; empty: session
  uint32_t count = 0;                       // of top: how often; 0: until it is ended on a terminal, else once
  std::string placer;                       // unix:PATH or tls://HOST:PORT; empty: as FindPlacer has it
  std::string certificate, key, authority;  // files for tls://; empty: the environment or the default
  std::string output = "text";              // or "wide" (of get, status, top), "json", "yaml"
};

}  // namespace tessera
