// What the environment tells the stub. Every variable is read once, here; nobody else calls getenv.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/log.h"

namespace tessera {

struct Config {
  // TESSERA_SERVER: where the server listens, "unix:PATH" or "/PATH"; several servers are separated by commas. Empty: not set.
  std::string server;
  // TESSERA_SERVER_NAMES: the user's names of these servers, if these are other addresses (behind an agent). Empty: as above.
  std::string server_names;
  // TESSERA_VGPU: the vGPUs to use, "NAME" or "NAME+NAME" (one for each GPU); those of several servers are separated by commas,
  // in the order of the servers. Empty: none.
  std::string vgpus;
  // TESSERA_TICKET: the file of each server's ticket, separated by commas, in the order of the servers; it may change while the
  // process runs. Empty: none.
  std::string tickets;
  // XDG_RUNTIME_DIR: the directory for sockets of this user's processes. Empty: not set.
  std::string runtime_directory;
  // The variables for an agent that the library starts (kAgentVariables), one a line. Processes that differ in them do not share
  // an agent.
  std::string agent_settings;
  // TESSERA_WAIT_MS: how long a session waits for a place at a full server, in milliseconds. Not set, or no number: the server
  // decides (tesserad --start-wait).
  uint32_t wait_ms = UINT32_MAX;
  // TESSERA_LOG: "debug" ... "off".
  LogLevel log_level = LogLevel::kWarning;
  // A value of TESSERA_LOG that names no level; empty: none.
  std::string bad_log_level;
  // TESSERA_STATS: empty or "0": no statistics; "1": to stderr at exit; else the path of a JSON file written at exit
  // (process_file.h).
  std::string stats;
  // TESSERA_TRACE: the path of a file that is written at exit (process_file.h); empty: no trace.
  std::string trace;
  // TESSERA_RUN_BEGUN: when `tessera run` began, in ns since 1970, by the clock of file times. 0: unknown.
  uint64_t run_begun_ns = 0;
  // CUDA_LAUNCH_BLOCKING or TESSERA_LAUNCH_BLOCKING is a number other than 0: every call waits for its result.
  bool launch_blocking = false;
  // CUDA_MODULE_LOADING=EAGER (anything else: lazy, the driver's default).
  bool eager_module_loading = false;
  // CUDA_VISIBLE_DEVICES as given, for the server to apply (indices, GPU-... or MIG-... prefixes; the first invalid
  // entry ends the list). Empty: not set. A variable that is set but empty means "no device" and reads "-1" here.
  std::string visible_devices;
  // Where compilers keep results (compile_cache.h), and how much. Empty: nowhere.
  std::string compile_cache_directory;
  uint64_t compile_cache_bytes_max = 0;
  // "name=value" of each driver variable that is set (kForwardedVariables): the server's driver must see the same.
  std::vector<std::string> forwarded_environment;
};

// The environment as it was when the library was first used. Each of the two libraries keeps its own copy (root/process_object.h,
// nvml/library.h). Any thread, also while the process starts or exits.
const Config& GetConfig();

// Reads the environment as it is now.
Config ReadConfig();
// Parses an environment through `get` (as getenv: null when not set). Pure, for ReadConfig() and tests.
Config ParseConfig(const char* (*get)(const char* name));

// A parsed server address: "unix:PATH", "/PATH", or an address of another host, which needs an agent (own_agent.h). `error`: one
// sentence for the user if the address cannot be used.
struct ServerAddress {
  std::string unix_path;
  std::string other_host;  // as it was written
  std::string error;
};
ServerAddress ParseServerAddress(std::string_view address);

// A parsed list of servers. `error`: one sentence for the user if the list cannot be used.
struct ServerList {
  struct Server {
    std::string name;  // for sentences
    std::string unix_path;
    std::string other_host;   // as in ServerAddress: there is no path before ReachOtherHosts()
    std::string vgpus;        // of this server
    std::string ticket_file;  // likewise; empty: none
  };
  std::vector<Server> servers;
  std::string error;
};
// `addresses`: Config::server, not empty; `names`: Config::server_names, ignored unless it has as many entries; `vgpus`:
// Config::vgpus and `tickets`: Config::tickets, each empty or with as many entries.
ServerList ParseServerList(std::string_view addresses, std::string_view names, std::string_view vgpus,
                           std::string_view tickets = {});

}  // namespace tessera
