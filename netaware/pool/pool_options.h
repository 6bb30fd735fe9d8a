// What `tessera get` and `tessera grants` were asked for. A plain value.
#pragma once

#include <string>

namespace tessera {

struct PoolOptions {
  std::string command;                      // get or grants; empty: neither was on the command line
  std::string what;                         // of get: servers, gpus, grants
  std::string action;                       // of grants: release
  std::string grant;                        // of grants: its id
  std::string reason;                       // of grants: what its job is told; empty: nothing
  std::string placer;                       // unix:PATH or tls://HOST:PORT; empty: as FindPlacer has it
  std::string certificate, key, authority;  // files for tls://; empty: the environment or the default
  std::string output = "text";              // or "wide" (of get), "json"
};

}  // namespace tessera
