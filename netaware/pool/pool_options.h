// What `tessera get`, `tessera grants`, `tessera events` and `tessera audit` were asked for. A plain value.
#pragma once

#include <string>

namespace tessera {

struct PoolOptions {
  std::string command;                      // get, grants, events or audit; empty: none of them was on the command line
  std::string what;                         // of get: servers, gpus, grants
  std::string action;                       // of grants: release
  std::string grant;                        // of grants: its id
  std::string reason;                       // of grants: what its job is told; empty: nothing
  std::string since, until;                 // of events and audit: usage_time.h; empty: a day ago, and now
  std::string of;                           // of these: a server, a grant or a holder; empty: all
  bool watch = false;                       // of all but grants: again and again
  std::string placer;                       // unix:PATH or tls://HOST:PORT; empty: as FindPlacer has it
  std::string certificate, key, authority;  // files for tls://; empty: the environment or the default
  std::string output = "text";              // or "wide", "yaml" (of get), "json"
};

}  // namespace tessera
