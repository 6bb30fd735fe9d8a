// One connection of this process to one server: sends records, receives replies and notices.
//
// Sending: any thread, under one short lock that is never held while waiting for ring space or touching the application's memory.
// Records of one thread arrive in the order of its calls; if a call of one thread happens before a call of another, so do their
// records. Receiving: a thread that waits for a reply drains the `replies` ring itself when no other thread does; while nobody
// waits the session's service thread does. That thread also notices the server's death. Then every waiting and every later call
// returns kServerGone, and stderr gets one sentence. A session in use is never destroyed, since exit handlers of other libraries
// still call; tests destroy theirs.
#pragma once

#include <pthread.h>

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client-stub/process/short_mutex.h"
#include "client-stub/session/context.h"
#include "client-stub/session/deferred_errors.h"
#include "client-stub/session/devices.h"
#include "client-stub/session/host_function_thread.h"
#include "client-stub/session/last_sequence.h"
#include "client-stub/session/mark_table.h"
#include "client-stub/session/poll_table.h"
#include "client-stub/session/reply_slot.h"
#include "client-stub/session/session_place.h"
#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handle.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/record.h"

namespace tessera {

class Channel;        // protocol/channel/channel.h
class ClientMemory;   // client_memory.h
class ManagedMemory;  // managed_memory.h
class ReplyReader;
class RingProducer;  // protocol/channel/ring.h

// What calls return once the server is gone: its text, "device is busy or unavailable", is true. Wherever this is named, calls
// return CUDA_ERROR_DEINITIALIZED instead after LeaveAtExit(), and CUDA_ERROR_LAUNCH_TIMEOUT after the server ended the session
// for its overrun.
inline constexpr CUresult kServerGone = CUDA_ERROR_DEVICE_UNAVAILABLE;

class Session {
 public:
  // Called on the thread that drains, in the order of the ring; no later reply is read meanwhile. It must be quick, and must not
  // wait, make CUDA calls or send records. `payload` is valid during the call only.
  using NoticeHandler = std::function<void(const ReplyHeader& header, std::span<const std::byte> payload)>;

  // Connects to the server at `socket_path`, says hello and keeps the agreed address windows. The sentence of a failure is for
  // the user.
  static Result<std::unique_ptr<Session>> Connect(const std::string& socket_path, const SessionPlace& place);
  // The same over a socket that is connected already.
  static Result<std::unique_ptr<Session>> Connect(UniqueFd socket, const SessionPlace& place = {});
  // Over a channel that is open already. Starts the threads of the session. `server`: SessionPlace::server.
  Session(std::unique_ptr<Channel> channel, ServerWelcome welcome, Devices devices, std::string server = {});
  // Says good-bye and ends the session's threads. Nobody may be in a call.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // --- What was agreed at the start; constant. ---
  const ServerWelcome& welcome() const { return welcome_; }
  uint32_t index() const { return welcome_.session_index; }
  int window_row() const { return static_cast<int>(welcome_.window_row); }
  // The two ends share no pages: written ranges of segments must be published on the channel.
  bool mirrored() const { return welcome_.mirrored; }
  // The devices of this server, by the numbers that the application uses.
  const Devices& devices() const { return devices_; }
  // "the server", or with its name where the process has several.
  std::string Name() const;

  // --- Parts. --- The parts of the rooms above. They are set once, when the session is published (root/attach_session.h), and
  // never destroyed. Do not call these before that.
  ClientMemory& memory() const { return *memory_; }
  ManagedMemory& managed() const { return *managed_; }
  bool attached() const { return memory_ != nullptr; }
  void Attach(ClientMemory* memory, ManagedMemory* managed) {
    memory_ = memory;
    managed_ = managed;
  }
  // Rings, the staging segment, segment offers: for the code that moves memory. See its header for which thread may
  // call.
  Channel& channel() { return *channel_; }
  HandleAllocator& handles() { return handles_; }
  ContextTable& contexts() { return contexts_; }
  DeferredErrors& deferred_errors() { return deferred_errors_; }
  // Completion marks (notices kCompletion).
  MarkTable& marks() { return marks_; }
  // Events and streams that the application polls.
  PollTable& polls() { return polls_; }
  // The thread on which the application's host functions run.
  HostFunctionThread& host_functions() { return host_functions_; }
  // The thread of the library's own visits (stream_visit.h).
  HostFunctionThread& stream_visits() { return stream_visits_; }

  // --- Sending. Any thread. `record` begins with room for a RecordHeader whose `call`, `flags`, `thread` and `context` are
  // filled in; `size_bytes` and `sequence` are set here. Its size is padded to kRecordAlignment by the caller. --- Appends and
  // returns. Waits only for ring space. CUDA_SUCCESS; kServerGone; CUDA_ERROR_INVALID_VALUE when the record is larger than
  // record_bytes_max() (send such arguments in pieces). `sequence` (may be null) becomes the record's. The LastSequences that the
  // record changes are raised before the server can see it.
  CUresult Append(std::span<std::byte> record, uint64_t* sequence = nullptr, std::span<LastSequence* const> changed = {});
  // As Append(), if all of `seen` are unchanged when the record gets its number. So no other record has changed one of them since
  // they were looked at. Otherwise nothing happens, and the result is kNotAppended.
  static constexpr CUresult kNotAppended = static_cast<CUresult>(1022);  // no code of CUDA's
  CUresult AppendIf(std::span<const SeenSequence> seen, std::span<std::byte> record, uint64_t* sequence,
                    std::span<LastSequence* const> changed);
  // Appends with kWantsReply set and waits for the reply in `slot`. The result is CUDA's own from the server, or as
  // above.
  CUresult Request(std::span<std::byte> record, ReplySlot* slot);
  // The two halves of Request(), for several requests in flight: Start() opens `slot` and appends.
  CUresult Start(std::span<std::byte> record, ReplySlot* slot, std::span<LastSequence* const> changed = {});
  CUresult Await(ReplySlot* slot);
  // For host functions: sends the record past the ring of commands, since launches there may wait for the function, and waits for
  // the reply in `slot`. The server executes it only if it has executed record `after` of the ring (0: no condition). Otherwise
  // nothing happens, and the result is kBehind. `record` stays unchanged.
  static constexpr CUresult kBehind = static_cast<CUresult>(1023);  // no code of CUDA's; kAsideBehind is none of the type's
  CUresult RequestAside(std::span<const std::byte> record, uint64_t after, ReplySlot* slot) EXCLUDES(answer_mutex_);
  // The sequence of the last record that was sent.
  uint64_t last_sequence() EXCLUDES(append_mutex_);
  // Largest record, header included.
  size_t record_bytes_max() const;

  // Answers a request of the server to run a host function (ring `answers`). Any thread, normally the host function
  // thread.
  CUresult SendAnswer(uint64_t request, CUresult result = CUDA_SUCCESS);

  // Tells the server what this process has written to host memory that has a mirror there (host_mirrors.h). The server takes it
  // before any later answer. Any thread but a notice handler's.
  CUresult SendHostChanges(std::span<const std::byte> changes);
  // The largest such message.
  size_t host_changes_bytes_max() const;

  // Waits until `done()` is true, draining replies meanwhile, or the server is gone (kServerGone). `done` must become
  // true through a notice's handler, and must be cheap: it is asked in a spin. Any thread but a notice handler's.
  CUresult WaitUntil(const std::function<bool()>& done);
  // Waits until the mark is passed and closes it. The work's result; kServerGone when the session ended first.
  CUresult WaitForMark(uint64_t mark);
  // Reads what is in the `replies` ring now, without waiting. For code that polls a state which notices update.
  void Poll();
  // How many records of the server were read so far: unchanged means that nothing new can be known.
  uint64_t records_read() const;

  // Sets the handler of one kind of notice. Kinds handled here already: kDeferredError, kDeviceOutput, kCompletion. Set
  // it before the first record that can cause such a notice.
  void OnNotice(NoticeKind kind, NoticeHandler handler);
  // Runs `look` on the service thread every 0.2 s or so, from the next time on. It must not wait.
  void OnService(std::function<void()> look) EXCLUDES(handlers_mutex_);

  // --- End of the session. --- Whether the server is known to keep images. Then an image is first only named, and often need not
  // be sent (image_load.h).
  bool keeps_images() const { return keeps_images_.load(std::memory_order_relaxed); }
  void KeepsNoImages() { keeps_images_.store(false, std::memory_order_relaxed); }
  bool gone() const { return gone_.load(std::memory_order_acquire); }
  // `heard` is called once when the session ends because of the server or of us, but not at exit; at once if the session is gone
  // already. Any thread may call it, also a notice handler's, so it must not wait.
  void OnGone(std::function<void()> heard) EXCLUDES(handlers_mutex_);
  // Ends the session from this side: prints `why` once, wakes everybody. Any thread.
  void Abandon(const Status& why);
  // Records that could not be understood: the server is not what it should be.
  void ProtocolViolation(std::string what);
  // The process ends, by the calling thread: says good-bye to the server. No other thread that is in a call comes back from it
  // while the process goes on ending: what it would come back to, in the program or in cudart, may be destroyed.
  void LeaveAtExit();
  // What a call ends with that needs the server, after gone(). After LeaveAtExit() other threads stay here (kExitNsMax).
  CUresult GoneResult();
  // No process takes so long to end after LeaveAtExit(), unless something in it waits for a thread that stays.
  static constexpr uint64_t kExitNsMax = 10'000'000'000;
  // In a forked child: forget the channel without touching it.
  void AbandonInChild();

 private:
  // Fills in size and sequence and appends. With kReplies `slot` is opened and registered before the record is visible.
  // `may()` is asked under the append lock; false: kNotAppended.
  template <bool kReplies, typename May>
  CUresult AppendRecord(std::span<std::byte> record, ReplySlot* slot, uint64_t* sequence, std::span<LastSequence* const> changed,
                        const May& may) EXCLUDES(append_mutex_);
  // Appends to `answers`. `prepare` is called once there is room, and may still change the record.
  template <typename Prepare>
  CUresult AppendAnswer(std::span<std::byte> record, Prepare prepare) EXCLUDES(answer_mutex_);
  void HandleNotice(const ReplyHeader& header, std::span<const std::byte> payload);
  void Service();
  // Ends the session, if it is not over yet, after a wait that ended early.
  CUresult Ended(const Status& why);

  const std::unique_ptr<Channel> channel_;
  const ServerWelcome welcome_;
  const Devices devices_;
  const std::string server_;
  ClientMemory* memory_ = nullptr;
  ManagedMemory* managed_ = nullptr;
  HandleAllocator handles_;
  ContextTable contexts_;
  DeferredErrors deferred_errors_;
  MarkTable marks_;
  PollTable polls_{marks_};
  HostFunctionThread host_functions_{"tessera-host-fn"};
  HostFunctionThread stream_visits_{"tessera-visits"};

  Mutex abandon_mutex_;  // guards the end of the session and the printing of its sentence
  std::atomic<bool> gone_{false};
  std::atomic<bool> keeps_images_{true};
  std::atomic<CUresult> gone_result_{kServerGone};
  std::atomic<bool> left_at_exit_{false};
  std::atomic<pthread_t> exiting_thread_{};  // set before left_at_exit_
  std::atomic<bool> stopping_{false};
  RingProducer& commands_;
  ShortMutex append_mutex_;
  uint64_t next_sequence_ GUARDED_BY(append_mutex_) = 1;
  Mutex answer_mutex_;
  uint64_t next_aside_ GUARDED_BY(answer_mutex_) = 1;
  Mutex handlers_mutex_;
  std::map<uint32_t, NoticeHandler> handlers_ GUARDED_BY(handlers_mutex_);
  std::vector<std::function<void()>> gone_listeners_ GUARDED_BY(handlers_mutex_);
  std::vector<std::function<void()>> service_looks_ GUARDED_BY(handlers_mutex_);
  const std::unique_ptr<ReplyReader> reader_;
  std::thread service_thread_;
};

}  // namespace tessera
