#include "server/broker/run_broker.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/waiting.h"
#include "server/broker/awake_time.h"

namespace tessera {
namespace {

// The daemon's end may be full for a while; nobody waits here for it.
class Line {
 public:
  Line(UniqueFd socket, CallQueue* calls) : socket_(std::move(socket)), calls_(calls) {}
  int fd() const { return socket_.get(); }

  void Send(std::span<const std::byte> message) {
    const BrokerWord word = BrokerWordOf(message);
    const bool passing = word == BrokerWord::kAlive || word == BrokerWord::kFigures;
    if (unsent_.empty() && SendMessage(fd(), message, {}, 0).code() != StatusCode::kTimedOut) return;
    // That it lived then, or how things were, is of no use later. That the daemon has gone is seen when its end is read.
    if (passing) return;
    unsent_.emplace_back(message.begin(), message.end());
  }
  Status SendRest() {
    while (!unsent_.empty() && SendMessage(fd(), unsent_.front(), {}, 0).code() != StatusCode::kTimedOut) unsent_.pop_front();
    if (unsent_.size() <= kUnsentMax) return Status::Ok();
    return Status(StatusCode::kUnavailable, "the daemon does not read what it asked for");
  }
  // The daemon has all that was said to it, or its socket has.
  bool is_clear() const { return unsent_.empty(); }
  // Waits for none but the first. kUnavailable when the daemon has hung up.
  Status Receive(Broker& broker, int messages_max = kMessagesAtOnce, uint64_t deadline_ns = 0) {
    for (int i = 0; i < messages_max; ++i) {
      Result<SocketMessage> message = ReceiveMessage(fd(), kBrokerMessageBytesMax, deadline_ns);
      if (!message.ok()) return message.status().code() == StatusCode::kTimedOut ? Status::Ok() : message.status();
      if (calls_ != nullptr && BrokerWordOf(message->bytes) == BrokerWord::kControlKeys) {
        RETURN_IF_ERROR(TakeKeys(std::move(message).value()));
        continue;
      }
      RETURN_IF_ERROR(broker.Take(std::move(message).value(), static_cast<int64_t>(MonotonicNs())));
    }
    return Status::Ok();
  }

 private:
  // They are the front's to read: it takes a while.
  Status TakeKeys(SocketMessage message) {
    Result<ControlKeysMessage> keys = ControlKeysMessage::Decode(message.bytes);
    if (!keys.ok()) return keys.status();
    if (message.fds.size() != 1) return Status(StatusCode::kProtocolViolation, "the daemon sent keys without their texts");
    calls_->GiveKeys({std::move(*keys), std::move(message.fds[0])});
    return Status::Ok();
  }

  const UniqueFd socket_;
  CallQueue* const calls_;
  std::deque<std::vector<std::byte>> unsent_;
};

constexpr uint64_t kFirstMessageNs = 5'000'000'000;

int64_t Now() { return static_cast<int64_t>(MonotonicNs()); }

// What comes next, by `again_ns` at the latest.
std::span<const Poller::Event> WaitFor(Poller& poller, AwakeTime& awake, int64_t again_ns) {
  const int64_t now_ns = Now();
  if (now_ns < awake.BeginNs() || now_ns >= awake.EndNs()) return poller.Wait(std::min(again_ns, awake.BeginNs()));
  const std::span<const Poller::Event> events = poller.WaitAwake(std::min(again_ns, awake.EndNs()));
  awake.Spent(Now() - now_ns);
  return events;
}

// The broker's side of the control API. A change is answered once the daemon has it, so that it is there also where the broker
// ends at once; until then other changes wait. Before the broker is told what there is no call is taken.
class Api {
 public:
  Api(Broker& broker, CallQueue* calls, Poller& poller, Line& line)
      : api_(broker, broker.administrators()), broker_(broker), calls_(calls), poller_(poller), line_(line) {}

  // When it is to be called again, at the latest.
  int64_t Turn(int64_t now_ns) {
    if (calls_ == nullptr) return INT64_MAX;
    AnswerChange();
    if (!answer_ && !waiting_.empty()) {
      const std::pair<uint64_t, VgpuCall> call = std::move(waiting_.front());
      waiting_.pop_front();
      Change(call);
    }
    if (!listens_ && broker_.is_told()) listens_ = poller_.Add(calls_->call_fd(), Poller::Source::kCalls).ok();
    if (!listens_) AnswerKeys();
    return listens_ && !answer_ && waiting_.empty() ? INT64_MAX : now_ns + kAgainNs;
  }
  void Happened() {
    AnswerKeys();
    std::optional<std::pair<uint64_t, VgpuCall>> call = calls_->TakeOne();
    if (!call) return;
    if (call->second.kind == VgpuCall::Kind::kGet || call->second.kind == VgpuCall::Kind::kList) {
      calls_->Answer(call->first, api_.Do(call->second, Now()));
    } else if (!answer_ && waiting_.empty()) {
      Change(*call);
    } else if (waiting_.size() < kWaitingMax) {
      waiting_.push_back(std::move(*call));
    } else {
      calls_->Answer(call->first, {CallCode::kUnavailable, "too many changes wait at this server: try again", {}});
    }
  }
  void PublishChanges(int64_t now_ns) {
    if (calls_ == nullptr || now_ns < again_ns_) return;
    if (!calls_->watched()) {
      published_ = 0;
    } else if (published_ != broker_.changes() + 1) {
      published_ = broker_.changes() + 1;
      again_ns_ = now_ns + Broker::kTickNs;
      calls_->Publish(api_.All());
    }
  }

 private:
  static constexpr int64_t kAgainNs = 1'000'000;
  static constexpr size_t kWaitingMax = 64;  // changes

  void Change(const std::pair<uint64_t, VgpuCall>& call) {
    answer_.emplace(call.first, api_.Do(call.second, Now()));
    again_ns_ = 0;  // whoever watches is told at once
    AnswerChange();
  }
  void AnswerChange() {
    if (!answer_ || !line_.is_clear()) return;
    calls_->Answer(answer_->first, std::move(answer_->second));
    answer_.reset();
  }
  void AnswerKeys() {
    const std::optional<ControlKeysAnswer> answer = calls_->TakeKeysAnswer();
    if (!answer) return;
    Encoder encoder(kBrokerMessageBytesMax);
    answer->Encode(encoder);
    line_.Send(encoder.bytes());
  }

  VgpuApi api_;
  Broker& broker_;
  CallQueue* const calls_;
  Poller& poller_;
  Line& line_;
  std::optional<std::pair<uint64_t, VgpuAnswer>> answer_;  // to a change that the daemon does not have yet
  std::deque<std::pair<uint64_t, VgpuCall>> waiting_;      // changes behind it
  bool listens_ = false;
  uint64_t published_ = 0;  // 1 + changes() then; 0: nobody has been told yet
  int64_t again_ns_ = 0;
};

// What is counted, for those who tell of it: once a second, and sooner where vGPUs or sessions are others.
class Counting {
 public:
  Counting(Broker& broker, MetricsBoard* board) : broker_(broker), board_(board) {}

  void Publish(int64_t now_ns) {
    if (board_ == nullptr) return;
    const int64_t gap_ns = published_ == broker_.changes() ? MetricsBoard::kGapNs : Broker::kTickNs;
    if (now_ns < last_ns_ + gap_ns) return;
    last_ns_ = now_ns;
    published_ = broker_.changes();
    board_->Publish(MetricsOf(broker_, now_ns));
  }

 private:
  Broker& broker_;
  MetricsBoard* const board_;
  int64_t last_ns_ = -MetricsBoard::kGapNs;
  uint64_t published_ = 0;  // changes() then
};

Result<UniqueFd> BlockSignals() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  if (sigprocmask(SIG_BLOCK, &handled, nullptr) != 0) return Status::FromErrno("cannot block signals", errno);
  UniqueFd signals(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return Status::FromErrno("cannot create a signal descriptor", errno);
  return signals;
}

}  // namespace

Status RunBroker(UniqueFd line_socket, const BrokerOptions& options, CallQueue* calls, MetricsBoard* board,
                 const std::function<Status()>& confine) {
  Result<Poller> poller = Poller::Make();
  if (!poller.ok()) return poller.status();
  Result<UniqueFd> signals = BlockSignals();
  if (!signals.ok()) return signals.status();
  Line line(std::move(line_socket), calls);
  RETURN_IF_ERROR(poller->Add(line.fd(), Poller::Source::kLine));
  RETURN_IF_ERROR(poller->Add(signals->get(), Poller::Source::kSignals));
  Broker broker(options, *poller, [&](std::span<const std::byte> message) { line.Send(message); });
  const Status first = line.Receive(broker, 1, MonotonicNs() + kFirstMessageNs);
  if (first.code() == StatusCode::kUnavailable) return Status::Ok();
  RETURN_IF_ERROR(first);
  Api api(broker, calls, *poller, line);
  Counting counting(broker, board);
  AwakeTime awake(CoreCount());
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // 1 us: the default of 50 us is as long as a hand-over may take
  RETURN_IF_ERROR(confine());
  for (;;) {
    RETURN_IF_ERROR(line.SendRest());
    const int64_t now_ns = Now();
    const int64_t again_ns = std::min(broker.Turn(now_ns), api.Turn(now_ns));
    api.PublishChanges(now_ns);
    counting.Publish(now_ns);
    awake.Expect(broker.HandOverNs(), now_ns);
    for (const Poller::Event& event : WaitFor(poller.value(), awake, again_ns)) {
      switch (event.source) {
        case Poller::Source::kSignals: return Status::Ok();
        case Poller::Source::kLine: {
          const Status status = line.Receive(broker);
          if (status.code() == StatusCode::kUnavailable) return Status::Ok();
          RETURN_IF_ERROR(status);
          break;
        }
        case Poller::Source::kRing: broker.Ring(event.session, Now()); break;
        case Poller::Source::kProcess: broker.WorkerEnded(event.session, Now()); break;
        case Poller::Source::kCalls: api.Happened(); break;
        case Poller::Source::kTimer: break;
      }
    }
  }
}

}  // namespace tessera
