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
  // TESSERA_SERVER_NAMES: what the user calls these servers, where that is another address (behind an agent). Empty: as above.
  std::string server_names;
  // TESSERA_VGPU: the vGPUs to use, "NAME" or "NAME+NAME" (one for each GPU); those of several servers are separated by commas,
  // in the order of the servers. Empty: none.
  std::string vgpus;
  // TESSERA_TICKET: the file of each server's ticket, separated by commas, in the order of the servers; it may change while the
  // process runs. Empty: none.
  std::string tickets;
  // XDG_RUNTIME_DIR: where sockets of this user's processes belong. Empty: not set.
  std::string runtime_directory;
  // What an agent that the library starts is set with (kAgentVariables), a line each: processes that differ in it need agents of
  // their own.
  std::string agent_settings;
  // TESSERA_WAIT_MS: how long a session waits for a place at a server that is full, in milliseconds. Not set, or no number: as
  // long as the server has it (tesserad --start-wait).
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
  // TESSERA_RUN_BEGUN: when `tessera run` started the process's tree, in ns since 1970, by the clock that files are dated with.
  // 0: unknown.
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

// The environment as it was when the library was first used. Any thread, also while the process starts or exits. Each of the two
// libraries that have this file keeps it with what else it has (root/process_object.h, nvml/library.h).
const Config& GetConfig();

// The environment as it is now, for whoever keeps it.
Config ReadConfig();
// Parses an environment through `get` (as getenv: null when not set). Pure, for ReadConfig() and tests.
Config ParseConfig(const char* (*get)(const char* name));

// A server address taken apart: "unix:PATH", "/PATH", or of another host, which an agent has to go to (own_agent.h). `error` is
// one sentence for the user when it cannot be used.
struct ServerAddress {
  std::string unix_path;
  std::string other_host;  // as it was written
  std::string error;
};
ServerAddress ParseServerAddress(std::string_view address);

// A list of servers taken apart. `error` is one sentence for the user when it cannot be used.
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
