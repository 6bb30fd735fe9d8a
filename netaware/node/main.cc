// tessera-node: joins a tesserad of this host to the pool of a placer. README.md lists its exit codes. It is two processes: the
// started one enters a sandbox, and its child opens files and connects for it (protocol/keeper/helper.h).
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "netaware/node/node_means.h"
#include "netaware/node/options.h"
#include "netaware/node/run_node.h"
#include "netaware/store/sqlite_store.h"
#include "programs/service_notice.h"
#include "programs/service_process.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-node";
constexpr uint64_t kStoreWaitNs = 5'000'000'000;  // the wait for the previous node to end
constexpr useconds_t kStoreAgainUs = 50'000;

Result<std::unique_ptr<Store>> OpenLedger(const std::string& path) {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::absolute(path, error).parent_path();
  std::filesystem::create_directories(directory, error);
  if (error) return Status::FromErrno("cannot make " + directory.string() + " for the ledger", error.value());
  const uint64_t until_ns = MonotonicNs() + kStoreWaitNs;
  for (;;) {
    Result<std::unique_ptr<Store>> store = OpenSqliteStore(path);
    if (store.status().code() != StatusCode::kUnavailable || MonotonicNs() >= until_ns) return store;
    usleep(kStoreAgainUs);
  }
}

// Ends the process without waiting for its threads.
[[noreturn]] void End(int code) { _exit(code); }

int Run(const NodeOptions& options) {
  ServiceNotice notice = ServiceNotice::Take();
  Result<std::unique_ptr<HelperLine>> helper = StartNodeHelper(options);
  if (!helper.ok()) return Fail(kName, helper.status(), kServiceInternal);
  Result<std::unique_ptr<Store>> store = OpenLedger(options.state);
  if (!store.ok()) return Fail(kName, store.status(), kServiceCannotListen);
  if (const Status entered = EnterNodeSandbox(options); !entered.ok()) return Fail(kName, entered, kServiceInternal);
  // The helper line lives as long as the process: detached threads use it.
  const Status status = RunNode(options, *std::move(*helper).release(), **store, notice, [&] {
    if (options.daemon_fd < 0) {
      const std::string server = options.server_path.empty() ? "no server" : "server unix:" + options.server_path;
      Announce(std::string(kName) + ": " + options.host_id + ", " + server + ", placer " + options.placer);
    }
    notice.Ready(options.host_id + ", placer " + options.placer);
  });
  if (status.ok()) return kServiceOk;
  return Fail(kName, status, status.code() == StatusCode::kInvalidArgument ? kServiceCannotListen : kServiceInternal);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  NodeOptions options;
  if (const int code = ParseNodeOptions(argc, argv, &options); code >= 0) return code;
  // tesserad adds the time to the log lines of a node that it started.
  SetLogName(kName, options.daemon_fd >= 0 ? LogTimes::kNever : LogTimes::kUnlessTerminal);
  SetLogLevel(options.log_level);
  RaiseDescriptorLimit();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // the helper inherits it
  End(Run(options));
}
