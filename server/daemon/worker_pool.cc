#include "server/daemon/worker_pool.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "server/daemon/child_process.h"
#include "server/daemon/client_environment.h"
#include "server/daemon/handover.h"
#include "server/shares/share_socket.h"

namespace tessera {
namespace {

// Whether a driver that was loaded for the one serves the other.
bool SameDriver(const ClientHello& a, const ClientHello& b) {
  return a.devices == b.devices && a.session_index == b.session_index &&
         AllowedVariables(a.environment) == AllowedVariables(b.environment);
}

}  // namespace

WorkerPool::WorkerPool(const Options& options)
    : options_(options), images_([&options](int socket) {
        return StartSelf({"--keeper-fd", std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid()), "--log", options.log_word,
                          "--image-cache", options.image_directory, "--image-cache-size", std::to_string(options.image_gib)},
                         {socket})
            .status();
      }),
      uids_(options.worker_uids) {}

Result<WorkerPool::Process> WorkerPool::Start(const ClientHello& hello, const UniqueFd* connection) {
  const uint64_t session = next_session_++;
  Result<UsageMemory> usage = UsageMemory::Make();
  if (!usage.ok()) return usage.status();
  Result<std::pair<UniqueFd, UniqueFd>> shares = MakeSocketPair();
  if (!shares.ok()) return shares.status();
  Result<std::pair<UniqueFd, UniqueFd>> handover = MakeSocketPair();
  if (!handover.ok()) return handover.status();
  RETURN_IF_ERROR(SendWish(handover->first.get(), hello));
  // There when the process looks whether somebody waits.
  if (connection != nullptr) RETURN_IF_ERROR(SendClient(handover->first.get(), connection->get()));
  std::vector<std::string> arguments = {
      "--worker-fd", std::to_string(kPassedFd), "--usage-fd", std::to_string(kPassedFd + 1),
      "--shares-fd", std::to_string(kPassedFd + 2), "--session", std::to_string(session), "--parent-pid", std::to_string(getpid()),
      "--driver", options_.driver, "--log", options_.log_word, "--priorities", options_.priorities,
      "--sandbox", options_.sandbox_word, "--worker-user", options_.worker_user,
      "--worker-root", options_.private_root ? "private" : "machine",
      "--hello-timeout", std::to_string(options_.hello_timeout_s)};
  std::vector<int> passed = {handover->second.get(), usage->fd(), shares->second.get()};
  Result<UniqueFd> images = options_.image_gib > 0 ? images_.Connect() : UniqueFd();
  if (!images.ok()) LogWarning("a session without images of others: {}", images.status().message());
  if (images.ok() && images->valid()) {
    arguments.insert(arguments.end(), {"--images-fd", std::to_string(kPassedFd + 3)});
    passed.push_back(images->get());
  }
  WorkerUids::Lease lease;
  if (!options_.worker_uids.empty()) {
    Result<WorkerUids::Lease> taken = uids_.Take();
    if (!taken.ok()) return taken.status();
    lease = std::move(taken).value();
    arguments.insert(arguments.end(), {"--worker-uid", std::to_string(lease.uid)});
  }
  Result<pid_t> pid = StartSelf(arguments, passed);
  if (!pid.ok()) return pid.status();
  if (lease.uid != 0) uid_locks_[*pid] = std::move(lease.lock);
  return Process{*pid, session, std::move(usage).value(), std::move(shares->first), std::move(handover->first)};
}

Result<WorkerPool::Process> WorkerPool::Serve(const ClientHello& hello, UniqueFd& connection) {
  if (!SameDriver(hello, like_)) {
    // The next client is more like this one than like those before it.
    warm_.clear();
    like_ = hello;
  }
  // Who runs a server for one job has use for one process, made in advance; it takes memory of the GPU.
  next_ns_ = options_.warm_workers == 0 || options_.owner_fd >= 0 ? kNoDeadline : MonotonicNs() + kPauseNs;
  while (!warm_.empty()) {
    Process process = std::move(warm_.front());
    warm_.pop_front();
    if (!SendClient(process.handover.get(), connection.get()).ok()) continue;  // it has ended: Forget() tells
    process.handover.reset();
    connection.reset();
    return process;
  }
  Result<Process> process = Start(hello, &connection);
  if (!process.ok()) return process;
  process->handover.reset();
  connection.reset();
  return process;
}

void WorkerPool::WarmUp() {
  if (MonotonicNs() < next_ns_) return;
  next_ns_ = kNoDeadline;
  while (warm_.size() < options_.warm_workers) {
    Result<Process> process = Start(like_, nullptr);
    if (!process.ok()) return LogWarning("no worker is started in advance: {}", process.status().message());
    LogDebug("worker {} waits for a session", process->pid);
    warm_.push_back(std::move(process).value());
  }
}

bool WorkerPool::Forget(pid_t pid) {
  uid_locks_.erase(pid);
  return warm_.remove_if([pid](const Process& process) { return process.pid == pid; }) > 0;
}

void WorkerPool::Close() {
  next_ns_ = kNoDeadline;
  warm_.clear();
}

}  // namespace tessera
