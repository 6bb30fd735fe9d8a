// The socket between the daemon and each of its workers. The daemon says for what to load the driver and, at once or later, sends
// the client's connection. The worker says that it is ready for a client and that its session has begun, and asks for room when
// memory does not suffice.
//
// The daemon checks every message of a worker, since a client may have taken the worker over. The worker checks nothing.
#pragma once

#include <cstdint>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"
#include "server/worker/room_maker.h"

namespace tessera {

enum class WorkerWord : uint32_t {
  kReady = 1,        // everything is prepared; `bytes` tells of the first device
  kNeedsRoom = 2,    // no memory is left: end processes that nobody needs, and answer when they have ended
  kAwaitsEnds = 3,   // answer when the sessions that are over have ended, and how much of `gpu` nobody needs
  kBegun = 4,        // its client has its welcome
  kHoldsHost = 5,    // answer whether its session may have `bytes` of host memory in all
  kMakesContext = 6  // it begins to make the context of `gpu`; kReady follows
};
struct WorkerSays {
  WorkerWord word = WorkerWord::kReady;
  uint32_t padding = 0;
  // kReady: the free memory of the first device, beside this worker's context; 0: unknown. kHoldsHost: the host memory of its
  // session, in all.
  uint64_t bytes = 0;
  GpuUuid gpu{};  // kReady: where it has a context
};

// The daemon's side. None of these waits. Only the parts of `hello` count with which a driver is loaded: devices, environment,
// session index.
Status SendWish(int line, const ClientHello& hello);
Status SendClient(int line, int connection);
// Answers kNeedsRoom and kAwaitsEnds: whether anything has ended, and to the second one how many bytes nobody needs; and
// kHoldsHost.
Status SendRoom(int line, bool made, uint64_t spare_bytes = 0);
// The worker's next message. kTimedOut: none yet. kUnavailable: it is ending, or will serve nobody. kProtocolViolation.
Result<WorkerSays> HearWorker(int line);

// The worker's side. The first two wait as long as it takes. kUnavailable: the daemon does not need this process any more.
Result<ClientHello> ReceiveWish(int line);
Result<UniqueFd> ReceiveClient(int line);
void SayMakesContext(int line, const GpuUuid& gpu);
void SayReady(int line, uint64_t free_bytes, const GpuUuid& gpu);
void SayBegun(int line);
// For a process that can serve nobody, or nobody more. From now on SendClient() fails. ReceiveClient() gives a client that is
// there already, who has to be told why, or kUnavailable.
void CloseLine(int line);
// Whether ReceiveClient() would not wait.
bool ClientWaits(int line);

// The worker's way to ask for room.
class LineRoomMaker : public RoomMaker {
 public:
  // `line` outlives this.
  explicit LineRoomMaker(int line) : line_(line) {}
  bool MakeRoom() override { return Ask({.word = WorkerWord::kNeedsRoom}).made; }
  uint64_t AwaitEnds(const GpuUuid& gpu) override { return Ask({.word = WorkerWord::kAwaitsEnds, .gpu = gpu}).spare_bytes; }
  // Asks for pieces of kHostPiece if it may, so that few segments have to ask.
  bool HoldHost(uint64_t bytes) override EXCLUDES(host_mutex_);

 private:
  static constexpr uint64_t kHostPiece = uint64_t{64} << 20;

  struct Answer {
    bool made = false;
    uint64_t spare_bytes = 0;
  };
  Answer Ask(const WorkerSays& says) EXCLUDES(mutex_);

  const int line_;
  Mutex host_mutex_;
  uint64_t host_bytes_ GUARDED_BY(host_mutex_) = 0;  // granted so far
  Mutex mutex_;                                      // held from a question to its answer
  bool silent_ GUARDED_BY(mutex_) = false;           // an answer did not come in time: a late one would be taken for the next
};

}  // namespace tessera
