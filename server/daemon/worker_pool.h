// Worker processes: one for each session, and some that wait. A process that waits ("warm") has loaded the driver for a client
// like one that was there before and made the context that such a client begins with, which takes most of the time from cuInit to
// a first kernel. A driver reads its environment once, so a warm process serves no client that asks for another one: clients of
// one kind ask for equal ones.
//
// How many wait: as many as --warm-workers says, for the kind of the last client; or, when it says nothing, one for that kind,
// and of every kind as many as short sessions of it have begun while a worker gets ready (SessionDemand), within
// WarmWorkersWithin().
//
// Used by the daemon's thread alone. It makes no CUDA call.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"
#include "server/daemon/children/worker_uids.h"
#include "server/daemon/gate_memory.h"
#include "server/daemon/options.h"
#include "server/daemon/readings/device_memory.h"
#include "server/daemon/session_demand.h"
#include "server/daemon/shared_directory.h"
#include "server/gate/gpu_uuid.h"
#include "server/images/image_keeper.h"

namespace tessera {

// What a worker is to serve.
struct WorkerWish {
  ClientHello hello;
  std::string gpus;  // UUIDs of those that it may have at all, separated by commas; empty: all of the server's
  std::map<uint32_t, uint64_t>
      memory_limits{};  // of its vGPUs, by row, in bytes; which process serves it does not depend on them
  std::map<uint32_t, uint64_t> context_bytes{};  // as GatePage has them. One with any is served by a process that has no context
};

class WorkerPool {
 public:
  // From when one is missing until it is started, unless sessions of its kind are short: what has just begun needs the machine
  // more.
  static constexpr uint64_t kPauseNs = 1'000'000'000;
  // After a session's memory did not suffice: none waits for so long.
  static constexpr uint64_t kGivenBackNs = 30'000'000'000;
  // What begins within so long, beside the time a worker takes to get ready, begins at once.
  static constexpr uint64_t kBurstNs = 250'000'000;
  static constexpr uint64_t kReadyMaxNs = 5'000'000'000;
  // Of how many kinds of clients it knows.
  static constexpr size_t kKindsMax = 8;

  struct Process {
    pid_t pid = -1;
    uint64_t session = 0;  // never used before
    GateMemory gate;
    UniqueFd pidfd;
    UniqueFd shares;    // the daemon's end (server/shares)
    UniqueFd line;      // the daemon's end (worker_line.h)
    uint64_t ready_ns;  // when it is ready, as the last ones were
  };

  // `gpus`: of the server; all three outlive it. `context_bytes`: what a context takes of each, as far as that is known.
  WorkerPool(const Options& options, const std::vector<GpusMessage::Uuid>& gpus, std::vector<uint64_t> context_bytes,
             ChildLogs& logs);

  // Gives `connection`, on which the hello still waits, to a process. Takes the connection unless it fails.
  Result<Process> Serve(const WorkerWish& wish, UniqueFd& connection);

  // Starts processes that are to wait, and ends those that are not needed any more, when it is time.
  void WarmUp();
  // When WarmUp() has something to do (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const { return next_ns_; }
  // The lines of the processes that wait, for poll().
  void Watch(std::vector<pollfd>* watched) const;
  // Hears what they have said since.
  void Hear();
  // Which of those that wait are making a context of `gpu` at this moment.
  std::set<pid_t> MakingContexts(const GpuUuid& gpu) const;
  // How much of the GPU's memory the contexts of those that wait take, as far as that is known.
  uint64_t ContextBytes(const GpuUuid& gpu) const;

  // Ends all that wait, since a session has no memory left; none is started for some time.
  void GiveBack();
  // Processes that were to wait, were told to end and have not yet.
  const std::set<pid_t>& ending() const { return ending_; }

  // What a process uses the emulated devices for, and what all do and have done. Zeros when the devices are real.
  DeviceUses DeviceUsesOf(pid_t pid) const;
  DeviceUses DeviceUsesOfAll() const;

  // A child has ended, and its user id and its part of the emulated devices are free: whether it was one of those that waited and
  // was not told to. None is started in its place before the next session.
  bool Forget(pid_t pid);
  // Ends those that wait, and starts no more.
  void Close();
  // No session is left: ends the process that keeps images.
  void CloseImages() { images_.Close(); }

 private:
  struct Kind {
    uint64_t id;
    WorkerWish like;
    SessionDemand demand;
    uint64_t missing_since_ns = 0;   // while one should wait and does not
    uint64_t device_free_bytes = 0;  // as the last one that got ready has told
  };
  struct Need {
    size_t workers;  // how many are to wait
    bool at_once;    // whether those that are missing are started without a pause
  };
  struct Waiting {
    Process process;
    uint64_t kind;
    uint64_t started_ns;
    bool ready = false;
    GpuUuid context_gpu{};  // of which it has a context, or makes one
  };
  struct Begun {
    uint64_t kind;
    uint64_t began_ns;
    uint64_t ready_ns;  // when its process is ready to serve it, as the last ones were
  };

  // The emulated devices of the next process: those of all others, or, of a private server, devices of its own.
  Result<std::shared_ptr<EmulatedDeviceMemory>> EmulatedDevices();
  // For the client at `connection`, or, when that is null, for one that is to come.
  Result<Process> Start(const WorkerWish& wish, const UniqueFd* connection);
  // The one that waited for clients of this kind, ready if there is one; else one that is started.
  Result<Process> TakeOrStart(const Kind& kind, const WorkerWish& wish, UniqueFd& connection);
  // The kind of such clients, which is then the first.
  Kind& KindOf(const WorkerWish& wish);
  Need NeedOf(Kind& kind, uint64_t now_ns);
  // Starts those of this kind that are missing, as far as it is time and other starts allow.
  void StartMissing(Kind& kind, size_t missing, bool at_once, uint64_t now_ns);
  void End(std::list<Waiting>::iterator waiting);
  // Ends the youngest of this kind until no more than `target` are left. How many are.
  size_t EndSurplus(const Kind& kind, size_t target);
  // Processes that get ready at this moment. Those that serve already count for as long as the last ones took, and wake the pool
  // then.
  size_t Starting(uint64_t now_ns);
  void WakeAt(uint64_t ns);

  const Options& options_;
  const std::vector<GpusMessage::Uuid>& gpus_;
  const std::vector<uint64_t> context_bytes_;  // by GPU
  ChildLogs& logs_;
  const size_t starts_max_;  // processes that get ready at the same time
  ImageKeeper images_;
  WorkerUids uids_;
  const SharedDirectory shared_;
  // Of processes that have not ended.
  std::map<pid_t, UniqueFd> uid_locks_;
  std::map<pid_t, DeviceSlot> device_slots_;
  std::shared_ptr<EmulatedDeviceMemory> device_memory_;  // null: nothing is shared
  std::list<Kind> kinds_;                                // that of the last client is the first; never empty
  std::list<Waiting> waiting_;                           // those started first are the first
  std::set<pid_t> ending_;
  std::set<pid_t> dead_;             // waited, closed their line, and have not ended yet
  std::map<pid_t, Begun> begun_;     // sessions
  uint64_t ready_ns_ = 250'000'000;  // what getting ready takes, from the last ones
  uint64_t none_until_ns_ = 0;
  uint64_t next_ns_ = 0;
  uint64_t next_session_ = 1;
  uint64_t next_kind_ = 1;
  bool served_ = false;   // a session has begun
  bool failing_ = false;  // one that should wait could not: none before the next session
  bool closed_ = false;
};

}  // namespace tessera
