// The process around relays, at either host. It accepts connections, gives each a thread that carries it, drops those that make
// no progress, and ends in order. The user of this class decides where a connection is carried (client-stub/agent,
// server/gateway).
//
// Where strangers may connect, accepting never stops. A connection that has proved nothing is dropped when a newer one needs its
// place (strangers.h). It has no thread before its first byte, and costs the sessions nothing.
//
//   RelayService service({.sessions_max = 64});
//   RETURN_IF_ERROR(service.Prepare());
//   service.Run(listener.fd(), [&] { return listener.Accept(); }, [&](UniqueFd connection, RelaySession& session) {...});
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/shortage.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/link.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/strangers.h"

namespace tessera {

class RelayService;

// One connection, as the thread that carries it sees it. The thread says here what it uses and waits for, so that the service can
// end the wait from its own thread.
class RelaySession {
 public:
  // Gives the connection `ns` from now for its next step. After that it is ended, and timed_out() is true. kNoDeadline: no limit.
  void Within(uint64_t ns);
  bool timed_out() const { return timed_out_.load(); }
  // Whether it was ended because a newer one needed its place.
  bool made_room() const { return made_room_.load(); }
  // Notes that the peer's first message was right: it makes room for strangers after those of whom that cannot be said.
  void BeUnderstood();
  // Notes that the peer has proved who it is. From now on it does not make room for strangers, only for others that have also
  // proved themselves.
  void Prove();
  // Counts this connection as a session; it makes room for nobody any more. False when there are sessions_max already. Call it
  // once.
  bool Establish();
  // Takes what the session's channel needs of what all sessions may have, until it is over. kResourceExhausted: there is not so
  // much, or a session may not have so much. Call it once.
  Status TakeMemory(uint64_t bytes);
  // Says what the thread waits for: `socket` (shut down to end the wait; a duplicate of it is kept) or `link`. Null: nothing any
  // more.
  void Uses(int socket);
  void Uses(std::shared_ptr<Link> link);
  // Carries the session until it is over. From then on the relay decides which links it uses.
  Status Run(Relay& relay);

 private:
  friend class RelayService;
  explicit RelaySession(RelayService& service) : service_(service) {}
  // Ends whatever the thread waits for. `in_order`: if it is a session, both sides are told.
  void End(bool in_order) EXCLUDES(mutex_);
  // Whether it is a session that waits for a link.
  bool WaitsForLink() EXCLUDES(mutex_);

  RelayService& service_;
  std::atomic<uint64_t> deadline_ns_;
  std::atomic<bool> timed_out_{false};
  std::atomic<bool> made_room_{false};
  std::atomic<bool> proved_{false};
  std::atomic<bool> established_{false};
  // For the service's thread. source_ does not change while this connection's thread runs.
  Source source_;
  uint64_t memory_bytes_ = 0;  // taken
  UniqueFd silent_;            // the connection until it says something; then it gets a thread
  uint64_t first_byte_ns_ = kNoDeadline;
  std::list<std::unique_ptr<RelaySession>>::iterator self_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  UniqueFd socket_ GUARDED_BY(mutex_);
  std::shared_ptr<Link> link_ GUARDED_BY(mutex_);
  Relay* relay_ GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

class RelayService {
 public:
  // Where only processes of this user connect: how many connections may be on their way to a session. More stay in the kernel's
  // queue until one of these has got on.
  static constexpr size_t kBeginningMax = 64;
  // Where strangers connect: how many that have proved who they are may be on their way to a session. Beyond it the oldest are
  // dropped, when all connections are looked at next (ten times a second).
  static constexpr size_t kProvedMax = 256;
  // Where strangers connect: how long the first byte may take.
  static constexpr uint64_t kFirstByteNs = 2'000'000'000;
  // How long a server may take to answer. It starts a driver, or has one process after another start one. A little more than the
  // 90 s that a client gives it, so that the client's own sentence is the one that is read.
  static constexpr uint64_t kWelcomeTimeoutNs = 95'000'000'000;
  // How long sessions may take to end in order when the service ends. If it ends because its owner has ended, sessions that wait
  // for a link may do so until their own grace time is over. So the server's host still hears of the end.
  static constexpr uint64_t kGraceNs = 2'000'000'000;

  struct Options {
    size_t sessions_max = 0;
    int owner_fd = -1;                             // readable once the owner, the process it is for, has ended; -1: none
    uint64_t hello_timeout_ns = 10'000'000'000;    // how long a connection may take to say what it wants
    std::optional<StrangerBounds> strangers = {};  // set where anybody may connect
    uint64_t segment_bytes_max = UINT64_MAX;       // of one session, as in Relay::BoundSegments(); also of its channel
    uint64_t segment_bytes_in_all = UINT64_MAX;    // of all together, their channels among them
    // Says who has connected, for the log. Required with `strangers`.
    std::function<std::string(int connection)> describe = {};
  };
  using Accept = std::function<Result<UniqueFd>()>;                               // kTimedOut when nobody waits
  using Carry = std::function<void(UniqueFd connection, RelaySession& session)>;  // on a thread of its own

  explicit RelayService(const Options& options);
  // Blocks SIGTERM and SIGINT, which Run() waits for. Call it before the first thread.
  Status Prepare();
  // Begins with the sessions that the process before this one carried. Each gets a relay, whose next link `supply` gives, and a
  // thread of its own that runs `carry`. Call it once, before Run(). `keeper` outlives this.
  void Adopt(KeeperLine& keeper, const Relay::Supply& supply,
             const std::function<void(Relay& relay, RelaySession& session)>& carry);
  // Carries what `accept` gives until a signal comes or the owner ends. Then ends everything. Call it once.
  void Run(int listener_fd, const Accept& accept, const Carry& carry);

  size_t sessions_max() const { return options_.sessions_max; }

 private:
  friend class RelaySession;
  // Takes one connection that waits. False: nobody waits any more, or accepting failed.
  bool Take(const Accept& accept, const Carry& carry);
  // Gives a connection a thread that carries it.
  void Begin(RelaySession& session, UniqueFd connection, const Carry& carry);
  void Start(RelaySession& session, std::function<void()> carry);
  RelaySession& Enter();
  // Forgets a connection that has no thread, or whose thread has ended.
  void Erase(RelaySession& session) EXCLUDES(strangers_mutex_);
  // Notes that it is no stranger, or none any more.
  void LeaveStrangers(RelaySession& session) EXCLUDES(strangers_mutex_);
  // Ends a connection so that a newer one has its place.
  void MakeRoom(RelaySession& session);
  void MakeRoomOfProved();
  // Gives a thread to each connection that has said something, and forgets those that have left.
  void HearSilent(const Carry& carry);
  // Drops the connections that have said nothing in time; `all`: all that have said nothing.
  void DropSilent(bool all);
  // Joins the threads that have finished.
  void Join() EXCLUDES(over_mutex_);
  // Ends the connections whose time is over. Does nothing if the last look at all of them was less than kSweepNsMin ago.
  void Sweep();
  void EndAll(bool owner_ended);
  size_t Beginning() const { return sessions_.size() - established_.load(); }

  const Options options_;
  Shortage accepting_{"accepting connections", "raise the limits of this process (ulimit -n -u)"};
  UniqueFd signals_;
  UniqueFd finished_;      // an eventfd: some thread has finished
  UniqueFd silent_ready_;  // an epoll of the silent connections
  std::atomic<size_t> established_{0};
  std::list<std::unique_ptr<RelaySession>> sessions_;
  uint64_t swept_ns_ = 0;
  SegmentBudget budget_;
  Mutex over_mutex_;
  std::vector<RelaySession*> over_ GUARDED_BY(over_mutex_);  // their threads are about to end
  Mutex strangers_mutex_;
  std::optional<Strangers> strangers_ GUARDED_BY(strangers_mutex_);  // set where anybody may connect
};

}  // namespace tessera
