// What tessera-broker decides for one server: vGPUs by file, sessions as the daemon tells of them, looks at what workers report,
// and pages that say who may use which GPU until when.
//
//   Broker broker(options, poller, [&](std::span<const std::byte> message) { ... });
//   RETURN_IF_ERROR(broker.Take(std::move(message), now_ns));    // from the daemon
//   broker.Ring(session, now_ns);                                // its eventfd was written to
//   const int64_t again_ns = broker.Turn(now_ns);                // after each batch of these, and then at the latest
//
// A session without a name is in `default` of each GPU that its report page calls visible. So is one that names vGPUs that are
// not there (the daemon says all of its sessions again to a broker that was started anew, which may have another file), until a
// file has them. A session that is in a vGPU stays there.
//
// It has no clock and reads no socket. Time is MonotonicNs as int64, and does not go back. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/channel/unix_socket.h"
#include "scheduler/admission.h"
#include "server/broker/gpu.h"
#include "server/broker/poller.h"
#include "server/broker/trace_file.h"
#include "server/broker/vgpu_book.h"
#include "server/gate/broker_line.h"

namespace tessera {

struct BrokerOptions {
  struct GpuPolicy {
    std::string gpu;  // as FindGpu() takes it; empty: all of them
    std::string name;
  };
  std::vector<GpuPolicy> policies{};  // each exists; a later one counts
  bool has_default = true;            // else no GPU has a vGPU `default`, and request 0 is not admitted
  double default_request = 0;
  int64_t overrun_after_ns = 5 * kSecondNs;   // of vGPUs with overrun = end
  std::vector<std::string> administrators{};  // holders who may change vGPUs by the API
  std::string record{};                       // path of a trace; empty: none
};

class Broker {
 public:
  // A worker that rings more often between two ticks is looked at every millisecond until the next one.
  static constexpr uint32_t kRingsMax = 1'000;
  static constexpr int64_t kTickNs = static_cast<int64_t>(kBrokerAliveNs);
  static constexpr int64_t kIdleTickNs = 5 * kTickNs;   // without sessions
  static constexpr int64_t kFiguresNs = 5 * kTickNs;    // between two FiguresMessages
  static constexpr int64_t kReportedNs = 10 * kTickNs;  // between two ReportedMessages
  // How long a session that has no room in its vGPU waits for some, and how many do; others are refused at once.
  static constexpr int64_t kRoomWaitNs = 2 * kSecondNs;
  static constexpr size_t kWaitingMax = 64;
  // A session that may begin has its place in its vGPU for so long: it comes by then, or never does.
  static constexpr int64_t kPlaceKeptNs = kSecondNs;

  using Send = std::function<void(std::span<const std::byte> message)>;
  // `poller` outlives it.
  Broker(const BrokerOptions& options, Poller& poller, Send send) : options_(options), poller_(poller), send_(std::move(send)) {}
  ~Broker();

  // A message of the daemon's. kProtocolViolation: it is none, or out of turn; kInvalidArgument: a policy is for a GPU that the
  // server does not have; kInternal and others: a record cannot be made. The broker is of no use then.
  Status Take(SocketMessage message, int64_t now_ns);
  void Ring(uint64_t session, int64_t now_ns);
  void WorkerEnded(uint64_t session, int64_t now_ns) { Leave(session, now_ns); }
  // When it is to be called again.
  int64_t Turn(int64_t now_ns);
  // When the first of the GPUs is expected to pass from one vGPU to another; kNever: none is.
  int64_t HandOverNs() const;

  // vGPUs of the API; the file's come as messages. `book()` has all that are in force.
  const VgpuBook& book() const { return book_; }
  const std::vector<GpusMessage::Uuid>& gpus() const { return uuids_; }
  // Sessions that are in the vGPU of this name, or in one that had it and goes with them.
  uint32_t SessionsIn(uint32_t gpu, std::string_view vgpu) const;
  // The same of all vGPUs, by GPU; as long as nothing changes.
  std::vector<std::map<std::string_view, uint32_t>> SessionsByVgpu() const;
  // Has the daemon end those at `at_ns`.
  void EndSessionsIn(uint32_t gpu, std::string_view vgpu, int64_t at_ns);
  const std::vector<std::string>& administrators() const { return options_.administrators; }
  struct GpuMemory {
    uint64_t for_vgpus_bytes = 0;  // what their limits, and a context for each, may add up to; 0: not known
    uint64_t context_bytes = 0;    // what a context takes; 0: not known
  };
  GpuMemory memory(uint32_t gpu) const { return gpu < memory_.size() ? memory_[gpu] : GpuMemory{}; }
  // The classes of vGPUs that the GPU's policy tells apart.
  std::vector<Priority> priorities(uint32_t gpu) const;
  // Of each GPU's time, what requests of vGPUs cannot have together.
  double kept_share() const { return options_.has_default ? kShareWithoutRequest : 0; }
  double default_request() const { return options_.default_request; }
  // Counts up when a vGPU changes, or the sessions of one.
  uint64_t changes() const { return changes_; }
  // Puts a book in force, which was made from book() and differs from it in `changed`, and in those that are not there any more.
  // It is in force as a whole, or not at all: errors as of PlanChange().
  void DropAside(const std::string& name);
  // The daemon is given what the API made, for the broker's successor: `text` is TextOfApi(), of KeptMessage::kTextBytesMax at
  // most.
  void SayKept(std::string text);
  std::string TextOfApi() const { return book_.TextOfApi(uuids_); }
  // Changes with request ids that were answered, by this broker and those before it.
  const AnsweredRequests& answered() const { return answered_; }
  // One more, which the daemon is given as well.
  void SayAnswered(AnsweredMessage answered);
  // It has been told which vGPUs there are, and what was answered. Before, nothing is to be changed.
  bool is_told() const { return is_told_; }
  Status Adopt(VgpuBook next, std::span<const FileVgpu> changed, int64_t now_ns);

  // The GPU of this row, with what its sessions have done until now counted.
  Gpu& CountWorkOn(uint32_t row);

  // For tests.
  const Gpu& gpu(size_t row) const { return *gpus_[row]; }
  size_t sessions() const { return sessions_.size(); }

 private:
  struct Session {
    uint64_t number;
    std::string vgpus;  // as it was asked for
    WorkerPages pages;
    UniqueFd ring;
    UniqueFd process;
    std::vector<Gpu::Member*> members{};  // by row; null: not in this GPU
    bool has_set = false;                 // of tokens
    bool settled = false;                 // it is in all vGPUs that it will ever be in
    uint32_t rings = 0;                   // since the last tick
  };

  Status TakeGpus(const GpusMessage& gpus, int64_t now_ns);
  std::string PolicyOf(uint32_t row) const;
  Status MakeGpu(uint32_t row, int64_t now_ns);
  Status TakeFile(const VgpuFileMessage& message, const UniqueFd& file, int64_t now_ns);
  void TakeKept(const KeptMessage& kept, int64_t now_ns);
  Status TakeTold(const ToldMessage& told, std::span<const UniqueFd> fds);
  Status TakeOneKept(const std::string& text, int64_t now_ns);
  Status ApplyFile(const VgpuFileMessage& message, const UniqueFd& file, int64_t now_ns);
  void TakeFound(const FoundMessage& found);
  void TakeSeen(const SeenMessage& seen);
  void Answer(const AskMessage& ask, int64_t now_ns);
  // Whether it was answered: what has no room is not, unless it is the last time.
  bool TryAnswer(const AskMessage& ask, int64_t now_ns, bool is_last_time);
  void AnswerWaiting(int64_t now_ns);
  // Sessions that may begin and have not come; of vGPUs without max_sessions, and no grant's, nobody counts them.
  Gpu::Coming Coming(int64_t now_ns) const;
  // kFull: there are as many sessions of this vGPU as it may have, or on their way.
  Status CheckPlaceIn(const BookedVgpu& vgpu, const Gpu::Coming& coming) const;
  // A session that may begin has its place until it comes.
  void KeepPlace(const AskMessage& ask, int64_t now_ns);
  // Fills in what a session is told of its GPUs. `is_last_time`: who has no room for a context begins without one.
  Status Judge(const AskMessage& ask, int64_t now_ns, bool is_last_time, AskAnswer* answer) const;
  Status TakeCame(const CameMessage& came, std::vector<UniqueFd> fds, int64_t now_ns);
  void Settle(Session& session, int64_t now_ns);
  void Place(Session& session, size_t row, std::string_view vgpu, bool alone, int64_t now_ns);
  void Leave(uint64_t number, int64_t now_ns);
  void FollowSets(int64_t now_ns);
  void FollowSet(Session& session, int64_t now_ns);
  void EndSet(Session& session, int64_t now_ns);
  void AssembleSets(int64_t now_ns);
  void Tick(int64_t now_ns);
  void SayOwners();
  void SayFigures(int64_t now_ns);
  void SayReported(int64_t now_ns);
  template <typename Message>
  void Say(const Message& message) {
    Encoder out;
    message.Encode(out);
    send_(out.bytes());
  }

  const BrokerOptions options_;
  Poller& poller_;
  const Send send_;
  std::vector<GpusMessage::Uuid> uuids_;
  std::vector<GpuMemory> memory_;  // by row
  std::vector<std::unique_ptr<TraceFile>> traces_;
  std::vector<std::unique_ptr<Gpu>> gpus_;  // by row
  VgpuBook book_;                           // vGPUs that are in force
  AnsweredRequests answered_;
  bool is_told_ = false;
  std::map<uint64_t, Session> sessions_;
  struct Waiting {
    AskMessage ask;
    int64_t until_ns;
  };
  std::vector<Waiting> waiting_;  // for room, in the order in which they came; kWaitingMax at most
  struct KeptPlace {
    std::string vgpus;  // as it was asked for
    int64_t until_ns;
  };
  std::vector<KeptPlace> places_;  // of sessions that may begin and have not come, where that is limited
  TokenSets sets_;                 // by number of session
  uint64_t changes_ = 0;
  int64_t tick_ns_ = 0;
  int64_t figures_ns_ = 0;
  uint64_t owners_said_ = 0;  // 1 + changes() then; 0: they were not
  int64_t reported_ns_ = 0;
};

}  // namespace tessera
