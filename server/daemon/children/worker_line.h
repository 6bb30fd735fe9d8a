// The socket between the daemon and each of its workers. From the daemon come what to load the driver for and, at once or later,
// the connection of the client. The worker says that it is ready for a client that is to come, that its session has begun, and
// asks for room when its session's memory does not suffice.
//
// The daemon checks every message of a worker, which may have fallen to its client; the worker checks nothing.
#pragma once

#include <cstdint>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"
#include "server/worker/room_maker.h"

namespace tessera {

enum class WorkerWord : uint32_t {
  kReady = 1,       // everything is prepared; `bytes` tells of the first device
  kNeedsRoom = 2,   // no memory is left: end whom nobody needs, and answer when they have ended
  kAwaitsEnds = 3,  // answer when the sessions that are over have ended
  kBegun = 4,       // its client has its welcome
  kHoldsHost = 5,   // answer whether its session may have so much host memory: `bytes`, in all
};
struct WorkerSays {
  WorkerWord word = WorkerWord::kReady;
  uint32_t padding = 0;
  // kReady: what of the first device's memory is free, beside this worker's context; 0: unknown. kHoldsHost: how much host memory
  // its session is to have in all.
  uint64_t bytes = 0;
};

// The daemon. None of these waits. Of `hello` counts what a driver is loaded with: devices, environment, session index.
Status SendWish(int line, const ClientHello& hello);
Status SendClient(int line, int connection);
// Answers kNeedsRoom and kAwaitsEnds: whether anything has ended; and kHoldsHost.
Status SendRoom(int line, bool made);
// What the worker says next. kTimedOut: nothing yet; kUnavailable: it is ending, or will serve nobody; kProtocolViolation.
Result<WorkerSays> HearWorker(int line);

// The worker. The first two wait for as long as it takes; kUnavailable when the daemon has no use for this process any more.
Result<ClientHello> ReceiveWish(int line);
Result<UniqueFd> ReceiveClient(int line);
void SayReady(int line, uint64_t free_bytes);
void SayBegun(int line);
// A process that can serve nobody, or nobody any more: from now on SendClient() fails, and ReceiveClient() gives a client that is
// there already, who is to be told why, or kUnavailable.
void CloseLine(int line);
// Whether ReceiveClient() would not wait.
bool ClientWaits(int line);

// The worker's way to ask for room.
class LineRoomMaker : public RoomMaker {
 public:
  // `line` outlives this.
  explicit LineRoomMaker(int line) : line_(line) {}
  bool MakeRoom() override { return Ask({WorkerWord::kNeedsRoom, 0, 0}); }
  void AwaitEnds() override { Ask({WorkerWord::kAwaitsEnds, 0, 0}); }
  // Asks for pieces of kHostPiece as far as it may, so that few segments have to.
  bool HoldHost(uint64_t bytes) override EXCLUDES(host_mutex_);

 private:
  static constexpr uint64_t kHostPiece = uint64_t{64} << 20;

  bool Ask(const WorkerSays& says) EXCLUDES(mutex_);

  const int line_;
  Mutex host_mutex_;
  uint64_t host_bytes_ GUARDED_BY(host_mutex_) = 0;  // that it may have
  Mutex mutex_;                                      // over question and answer
  bool silent_ GUARDED_BY(mutex_) = false;           // an answer did not come in time: a late one would be taken for the next
};

}  // namespace tessera
