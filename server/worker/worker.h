// One session on the server: everything that stands between one client's channel and the driver.
//
//   Worker worker(channel, driver, options);
//   Executor executor(worker);
//   Status why = executor.Run();      // on the calling thread, until the session ends
//
// Threads (README.md has the table): the executor runs records in ring order and never waits for the GPU; the completion
// thread watches recorded events; helper threads run calls that block in the driver; the answers thread reads what host
// functions answered, the aside thread runs what they ask. Everything public here may be called by each of them and by callback
// threads of the driver, except where a line says otherwise. Nothing in a Worker is global: several can live in a process.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "protocol/base/status.h"
#include "protocol/memory/window_table.h"
#include "protocol/wire/handle.h"
#include "protocol/wire/record.h"
#include "server/worker/driver_chores.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/gate/gate.h"
#include "server/worker/implicit_order.h"
#include "server/worker/output_watch.h"
#include "server/worker/recent_launches.h"
#include "server/worker/session_end.h"
#include "server/worker/session_parts.h"
#include "server/worker/threads/thread_contexts.h"
#include "server/worker/trace_log.h"

namespace tessera {

struct DriverTable;   // generated/driver_table.h
class AnswerHub;      // answer_hub.h
class Channel;        // protocol/channel
class Completion;     // completion.h
class DeviceOutput;   // device_output.h
class DoneWords;      // done_words.h
class GpuTimes;       // gpu_times.h
class HelperPool;     // helper_pool.h
class ImageCache;     // server/images/image_cache.h
class ObjectTable;    // object_table.h
class ReplyWriter;    // reply_writer.h
class RoomMaker;      // room_maker.h
class ShareBroker;    // server/shares/share_broker.h
class ThreadStreams;  // thread_streams.h

struct WorkerOptions {
  // Which of its sessions this is to the client; part of every handle.
  uint32_t session_index = 0;
  // The session's own parts of the agreed address windows.
  WindowPair windows;
  // Where the driver's printf text is caught; null: it is not forwarded (in-process tests).
  DeviceOutput* device_output = nullptr;
  // The client is in this very process (tests): its pinned memory is the worker's.
  bool client_in_process = false;
  // How long a reply waits for a client that does not read, before the session ends. A client keeps a service thread that
  // reads, so a ring that stays full for a minute has nobody behind it any more; a process that was stopped or swapped out
  // for a while has.
  uint64_t reply_wait_ns = 60'000'000'000;
  // Through which the session shares objects with others; null: it shares none.
  ShareBroker* shares = nullptr;
  // Where images are that need not be sent; null: nowhere.
  ImageCache* images = nullptr;
  // Who makes room when the device has no memory left; null: nobody.
  RoomMaker* rooms = nullptr;
  // Primary contexts that the process has retained in advance, with the driver's default flags: the session's now.
  std::map<CUdevice, CUcontext> warm_contexts;
  // How a broker says when the session may use its GPUs.
  GatePages gate;
};

class Worker {
 public:
  // `channel` and `driver` outlive the worker; the driver was initialised (cuInit) by the caller.
  Worker(Channel& channel, const DriverTable& driver, const WorkerOptions& options);
  // Stops all threads. Waits for calls that are inside the driver; a process that must not wait calls _exit instead.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Ends the session with this reason (the first one counts). Executor::Run() returns soon after; calls in flight get no reply.
  void End(Status reason) { end_.End(std::move(reason)); }
  bool ended() const { return end_.ended(); }
  SessionEnd& end() { return end_; }

  // Different for every Worker the process ever had.
  uint64_t serial() const { return contexts_.serial(); }
  const DriverTable& driver() const { return driver_; }
  // Where device memory and pinned host memory of this session live, on both sides.
  const WindowPair& windows() const { return options_.windows; }
  const WorkerOptions& options() const { return options_; }
  Channel& channel() { return channel_; }
  ShareBroker* shares() { return options_.shares; }
  RoomMaker* rooms() { return options_.rooms; }
  ObjectTable& objects() { return *objects_; }
  DoneWords& done_words() { return *done_words_; }
  Completion& completion() { return *completion_; }
  AnswerHub& answers() { return *answers_; }
  HelperPool& helpers() { return *helpers_; }
  ThreadStreams& thread_streams() { return *thread_streams_; }
  ReplyWriter& replies() { return *replies_; }
  TraceLog& trace() { return trace_; }
  GpuTimes& gpu_times() { return *gpu_times_; }

  // The sequence of the last record of `commands` that was executed, or handed to a helper thread; 0: none was.
  uint64_t executed() const { return gate_.executed().load(std::memory_order_acquire); }
  // By the executor.
  void NoteExecuted(uint64_t sequence) { gate_.executed().store(sequence, std::memory_order_release); }

  BusyStreams& busy_streams() { return busy_streams_; }
  ImplicitOrder& implicit_order() { return implicit_order_; }
  Gate& gate() { return gate_; }
  RecentLaunches& recent_launches() { return recent_launches_; }
  DriverChores& driver_chores() { return driver_chores_; }
  OutputWatch& output_watch() { return output_watch_; }
  // What the domains keep (memory, images, sharing ...).
  SessionParts& parts() { return *parts_; }

  // Makes a context (null or 0: none) current on the calling thread, in the driver, when it is not already, and puts the
  // thread into RELAXED capture mode on its first use. A handle that is not live makes none current: the driver then
  // answers what it answers to a thread without context. The driver's verdict otherwise.
  // Executor, aside, helper and completion threads; NOT a callback thread of the driver.
  CUresult SetContext(const RecordHeader& header) { return SetContext(HandleId(header.context)); }
  CUresult SetContext(HandleId context);
  CUresult SetContext(CUcontext context) { return contexts_.Set(context); }
  // What SetContext last made current on the calling thread.
  CUcontext CurrentContext() { return contexts_.current(); }
  // The calling thread itself changed what is current in the driver (cuCtxCreate pushes): the next SetContext sets it
  // again instead of trusting its memory. CurrentContext() is null until then.
  void ForgetCurrentContext() { contexts_.Forget(); }
  // A context was destroyed or reset: as ForgetCurrentContext(), for all threads (a new context may get the old address).
  void ForgetCurrentContexts() { contexts_.ForgetAll(); }
  ThreadContexts& contexts() { return contexts_; }

  // Appends one notice to the replies ring: under a short lock, waiting at most reply_wait_ns for a client that does not
  // read, after which the session ends. False when the session has ended (the notice was not sent) or the payload does
  // not fit a record. What `extra`, `result` and `payload` mean stands with the kinds (protocol/wire/record.h).
  bool SendNotice(NoticeKind kind, uint64_t extra, CUresult result = CUDA_SUCCESS, std::span<const std::byte> payload = {});

  // One line on the program's stderr, as of its client library: why the server refused what a call asked for. The first few of a
  // session alone.
  void WarnProgram(std::string_view sentence);

  // Sends what the driver wrote to stdout and stderr since the last call, as kDeviceOutput and kDeviceErrors notices in
  // pieces. To be called after a call in which the driver may have written (it synchronised) and before its reply; replies
  // and notices of a failure do it by themselves. No work when nothing catches output.
  void DrainDeviceOutput();

 private:
  Channel& channel_;
  const DriverTable& driver_;
  const WorkerOptions options_;
  SessionEnd end_;
  ThreadContexts contexts_;
  TraceLog trace_;

  std::unique_ptr<ObjectTable> objects_;
  std::unique_ptr<ReplyWriter> replies_;
  std::atomic<int> warnings_{0};  // that the program was given
  std::unique_ptr<ThreadStreams> thread_streams_;
  std::unique_ptr<DoneWords> done_words_;
  BusyStreams busy_streams_;
  ImplicitOrder implicit_order_;
  Gate gate_;
  RecentLaunches recent_launches_;
  DriverChores driver_chores_;
  OutputWatch output_watch_;
  std::unique_ptr<SessionParts> parts_;  // made last; destroyed after the threads below have stopped
  std::unique_ptr<AnswerHub> answers_;
  std::unique_ptr<Completion> completion_;
  std::unique_ptr<HelperPool> helpers_;
  const std::unique_ptr<GpuTimes> gpu_times_;
};

}  // namespace tessera
