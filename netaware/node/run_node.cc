#include "netaware/node/run_node.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "netaware/node/broker_line.h"
#include "netaware/node/daemon_line.h"
#include "netaware/node/key_watch.h"
#include "netaware/node/node_core.h"
#include "netaware/node/node_messages.h"
#include "netaware/node/node_queue.h"
#include "netaware/node/placer_line.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr int64_t kBeatMs = 1'000;

NodeTime Now() {
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  return {static_cast<int64_t>(MonotonicNs() / 1'000'000), wall.tv_sec * int64_t{1'000} + wall.tv_nsec / 1'000'000};
}

// Before there are other threads, which all have them blocked then.
Result<UniqueFd> BlockSignals() {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&handled, number);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  signal(SIGPIPE, SIG_IGN);
  UniqueFd signals(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return Status::FromErrno("cannot create a signal descriptor", errno);
  return signals;
}

class Node : public NodeOut {
 public:
  Node(const NodeOptions& options, const NodeMeans& means, NodeQueue& queue, ServiceNotice& notice)
      : queue_(queue),
        notice_(notice),
        has_server_(!options.server_path.empty()),
        server_{options.host_id, options.host, options.addresses, {}, options.daemon_fd >= 0 || !has_server_},
        broker_(options.control, options.server_path, means, queue,
                {.described = [this](auto devices) { server_.devices = std::move(devices); },
                 .list =
                     [this](ServerVgpus list) {
                       core_->TakeList(std::move(list));
                       ShowServer();
                     },
                 .done = [this](const std::string& vgpu, const Status& status) { core_->CallDone(vgpu, status, Now()); },
                 .lost = [this] { core_->BrokerLost(); }}),
        placer_(options.placer, options.keys, means.placer, queue,
                {.registration = [this] { return Register(); },
                 .heard = [this](const control::v1::ToNode& message) { return Hear(message); },
                 .lost = [this] { core_->PlacerLost(); }}) {
    if (options.daemon_fd >= 0) {
      daemon_.emplace(UniqueFd(options.daemon_fd));
    } else if (has_server_) {
      LogWarning(
          "the GPUs of this server are not offered: its tesserad has not started this node, and takes no tickets; end this node, "
          "and start tesserad with --placer {}",
          options.placer);
    }
  }

  Status Open(Store& store) {
    Result<std::unique_ptr<NodeCore>> core = NodeCore::Open(store, server_.server, *this, Now());
    if (!core.ok()) return core.status();
    core_ = std::move(core).value();
    return Status::Ok();
  }

  // `helper`: hung up when that has ended.
  Status Run(int signals, int helper) {
    if (has_server_) {
      broker_.Start();
    } else {
      placer_.Start();
    }
    for (;;) {
      notice_.Beat(MonotonicNs());
      const int64_t again_ms = std::min(core_->Turn(Now()), Beat());
      const int64_t wait_ms = std::clamp<int64_t>(again_ms - Now().steady_ms, 0, kBeatMs);
      pollfd ready[] = {{queue_.fd(), POLLIN, 0}, {signals, POLLIN, 0}, {-1, 0, 0}, {helper, 0, 0}};
      if (daemon_) ready[2] = {daemon_->fd(), daemon_->events(), 0};
      if (poll(ready, std::size(ready), static_cast<int>(wait_ms)) < 0 && errno != EINTR) {
        return Status::FromErrno("cannot wait for what comes", errno);
      }
      if (ready[1].revents != 0 && IsEndOf(signals)) return Status::Ok();
      if (ready[3].revents != 0) return Status(StatusCode::kUnavailable, "the process that connects for this one has ended");
      if (ready[0].revents != 0) queue_.Run();
      if (ready[2].revents != 0 && !daemon_->Tend([this](TicketQuestion question) {
            core_->Ask({question.id, std::move(question.holder), std::move(question.ticket)}, Now());
          })) {
        return Status::Ok();
      }
    }
  }

  void AnswerOrder(uint64_t number, const Status& status) override { placer_.Send(MessageOf(number, status)); }
  void CallBroker(const GrantVgpus::Call& call) override { broker_.Call(call); }
  void AnswerTicket(uint64_t id, const Status& status, const std::string& vgpus) override {
    if (daemon_) daemon_->Send({id, status.code(), status.message().substr(0, kNodeSentenceBytesMax), vgpus});
  }

 private:
  // A placer hears of a server whose GPUs are known, and again when they are others.
  void ShowServer() {
    const std::vector<ServerGpu>& gpus = core_->list()->gpus;
    if (gpus.empty()) return;
    for (const ServerGpu& gpu : gpus) {
      if (!server_.devices.contains(gpu.uuid)) LogWarning("the server does not say what its GPU {} is", gpu.uuid);
    }
    if (registered_ != gpus) placer_.End("the server's GPUs are others now");
    placer_.Start();
  }
  control::v1::FromNode Register() {
    if (has_server_) registered_ = core_->list()->gpus;
    beat_ms_ = Now().steady_ms + kBeatMs;
    return RegistrationOf(server_, registered_, core_->Beat(Now()));
  }
  Status Hear(const control::v1::ToNode& message) {
    if (message.has_welcome()) return core_->Welcomed(WelcomeOf(message.welcome()), Now());
    if (message.has_clock()) core_->TakeClock(message.clock().now_ms(), Now());
    if (message.has_order()) core_->Take(OrderOf(message.order()));
    return Status::Ok();
  }
  // When the next one is due.
  int64_t Beat() {
    const NodeTime now = Now();
    if (now.steady_ms < beat_ms_) return beat_ms_;
    beat_ms_ = now.steady_ms + kBeatMs;
    placer_.Tend(now.steady_ms);
    if (placer_.is_welcome()) placer_.Send(MessageOf(core_->Beat(now)));
    return beat_ms_;
  }
  // False: it was another signal.
  bool IsEndOf(int signals) {
    signalfd_siginfo info{};
    while (read(signals, &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo != SIGHUP) {
        notice_.Stopping("ends");
        return true;
      }
      notice_.Reloading();
      placer_.End("it is connected anew at SIGHUP");
      notice_.Reloaded();
    }
    return false;
  }

  NodeQueue& queue_;
  ServiceNotice& notice_;
  std::unique_ptr<NodeCore> core_;
  const bool has_server_;
  NodeServer server_;
  std::vector<ServerGpu> registered_;
  BrokerLine broker_;
  PlacerLine placer_;
  std::optional<DaemonLine> daemon_;
  int64_t beat_ms_ = 0;
};

}  // namespace

Status RunNode(const NodeOptions& options, HelperLine& helper, Store& store, ServiceNotice& notice,
               const std::function<void()>& ready) {
  Result<UniqueFd> signals = BlockSignals();
  if (!signals.ok()) return signals.status();
  Result<std::unique_ptr<NodeQueue>> queue = NodeQueue::Make();
  if (!queue.ok()) return queue.status();
  // Threads of both go on until the process ends.
  const NodeMeans means = MeansBy(helper);
  auto* const node = new Node(options, means, *std::move(queue).value().release(), notice);
  RETURN_IF_ERROR(node->Open(store));
  ready();
  KeyWatch::Start(options.placer, options.keys, means);
  return node->Run(signals->get(), helper.fd());
}

}  // namespace tessera
