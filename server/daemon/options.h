// The command line of tesserad.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "programs/service_options.h"
#include "programs/settings_file.h"
#include "protocol/base/status.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/link/link_options.h"
#include "server/daemon/children/worker_uids.h"
#include "server/sandbox/sandbox.h"

namespace tessera {

struct Options : ServiceOptions {
  enum class Role { kDaemon, kWorker, kProbe, kTrial, kMonitor, kImageKeeper };
  Role role = Role::kDaemon;

  std::string listen_path;                  // of the first --listen unix:PATH, or the default
  std::vector<std::string> more_paths;      // of further ones
  SocketAccess socket;                      // of --socket-group and --socket-mode
  std::vector<std::string> administrators;  // of --admin, as holders (caller.h)
  std::vector<std::string> gateway_urls;    // of --listen SCHEME://HOST:PORT: a gateway for each
  LinkOptions link;                         // of the gateways
  uint32_t resume_grace_s = 30;             // of the gateways
  std::string driver = "auto";              // auto, cuda, emulator or a path
  uint32_t sessions_max = 256;
  uint32_t start_wait_s = 60;            // how long a session may wait for its turn to begin
  uint64_t gpu_memory_bytes = 0;         // of each GPU that limits of vGPUs may add up to; 0: all that it has
  uint64_t host_memory_mib = 0;          // that sessions may share with their clients, in all; 0: seven eighths of the machine's
  std::string cache_directory;           // for what later servers of this user can use; empty: there is none
  std::string image_directory;           // where images are kept
  uint32_t image_gib = 8;                // how much of them; 0: none
  std::optional<uint32_t> warm_workers;  // processes that wait for a session with a driver loaded; nullopt: by demand
  uint32_t grace_s = 30;
  SandboxMode sandbox = SandboxMode::kAuto;
  std::string sandbox_word = "auto";
  std::string worker_user = "nobody";  // of workers that root starts
  UidRange worker_uids;                // besides: a user each, in its place
  bool private_root = true;            // of workers
  bool workers_keep_user = false;      // found at start: they cannot become another
  bool vgpus = true;                   // a broker is started
  std::string vgpu_path;               // of --vgpus; empty: none
  std::vector<std::string> policies;   // of --policy, for the broker
  bool no_default_vgpu = false;        // --default none
  std::string default_request;         // of --default-request, for the broker
  std::string overrun_after;           // of --overrun-after, for the broker
  std::string record_path;             // of --record, for the broker
  std::string control_path;            // of --control unix:PATH; empty: there is no control API for users of this host
  bool control_is_asked = false;       // it is not the default: without it there is no server
  std::string usage_directory;         // of usage records, beside the state; empty: there are none
  uint32_t usage_days = 7;             // of --usage-days
  bool usage_is_asked = false;         // it was named: without records there is no server
  std::string metrics_address;         // of --metrics; empty: nobody is told of metrics
  std::string control_url;             // of --control tls://HOST:PORT, with the files of `link`; empty: there is none there
  std::string state_path;              // of --state; empty: vGPUs of the control API end with the server
  bool state_is_asked = false;         // likewise
  // What is done about a session that is found to use a GPU without reporting it (readings/audit.h).
  enum class Audit { kOff, kLog, kEnd };
  Audit audit = Audit::kLog;
  std::string placer_url;      // of --placer: unix:PATH or tls://HOST:PORT; empty: the server is of no pool
  std::string host_id;         // of --host-id, for the node; empty: it makes one
  bool needs_ticket = false;   // of --admission: sessions without a ticket are refused
  bool check_sandbox = false;  // tell what workers give up here, and end

  std::vector<std::string> words;  // the command line
  Settings settings;               // what it and the file of settings say

  // Not for users: how long a broker or a gateway may take until it is ready.
  uint32_t ready_timeout_s = 20;
  uint64_t ready_timeout_ns() const { return ready_timeout_s * uint64_t{1'000'000'000}; }

  // Of processes that the daemon starts; not for users.
  int worker_fd = -1;             // of a worker: where its client comes from (handover.h)
  int shares_fd = -1;             // of a worker: to the daemon's table of shares (server/shares)
  int device_page_fd = -1;        // of a worker: the emulated devices' page (server/device_page.h)
  uint32_t device_slot = 0;       // of a worker: its slot of that page
  int gate_fd = -1;               // of a worker: its gate page (server/gate)
  int report_fd = -1;             // of a worker: its report page
  int event_fd = -1;              // of a worker: what wakes the broker
  std::string gpus;               // of a worker: those its session may have at all; empty: all of the server's
  bool measure_contexts = false;  // of a probe: what a context takes of each device is wanted
  int probe_fd = -1;
  int trial_fd = -1;                          // of a process that tries the driver (driver_trial.h)
  std::string shared_memory;                  // of a worker: SandboxOptions::shared_memory
  CallFilter calls = CallFilter::kAllowList;  // of a worker; also set by the daemon for its workers
  int monitor_fd = -1;
  int keeper_fd = -1;
  int images_fd = -1;  // of a worker: to the process that keeps images (server/images)
  uint64_t session = 0;
  int parent_pid = 0;
  uid_t worker_uid = 0;    // of a worker with a user of its own
  std::string priorities;  // of snapshot_builder.h; also set by the daemon for its workers
};

// As ServiceCommandLine::Parse().
int ParseOptions(int argc, char** argv, Options* options);

// What `words`, a command line that was parsed before, and the file of settings say now. kInvalidArgument with a sentence, with
// file and line where it is about one: they cannot be used.
Result<Options> ParseOptionsAgain(const std::vector<std::string>& words);

}  // namespace tessera
