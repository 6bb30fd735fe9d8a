// Writes what the process did, and when, to a file for Perfetto (https://ui.perfetto.dev): each thread's calls, each record's way
// to the server, its execution there. Only with TESSERA_TRACE. Every process has a file of its own (process/process_file.h),
// except a child forked from a process with a session: it may make no calls.
//
// The form is Google's "Trace Event Format", JSON. Process 1 is the program, with its name and its threads' names. Process 2 + i
// is the worker of session i of n, and process 2 + n + i is that session's GPUs, with a lane for each stream. A record that waits
// to be executed is an asynchronous slice of its worker; an arrow leads from the call to the execution. A visit
// (streams/stream_visit.h) is a slice of the program and a slice of the worker, whose stream waits. The clock is the program's
// CLOCK_MONOTONIC. A worker's clock is compared with it at the end, which is exact to half a round trip. A launch has the name of
// its kernel. In its stream's lane it lasts for the time between two events of the driver around it, some microseconds of which
// are the events' own. An execution says which thread sent its record. A call that waited for answers says for how many
// ("waits"). No execution begins before its call: where half a round trip would show that, the worker's clock is moved.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "client-stub/process/process_file.h"
#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/trace_event.h"

namespace tessera {

struct CallInfo;
class Session;
class TracedWork;  // trace_work.h

class Trace {
 public:
  // The version of the file's form. A change that readers must know gets a new one.
  static constexpr int kVersion = 1;

  struct Worker {
    std::vector<TraceEvent> events;
    std::vector<TraceWork> work;
    std::vector<std::string> names;  // of kernels, mangled
    int64_t ahead_ns = 0;            // of the program's clock
  };

  // The times of a visit, in their order.
  struct VisitTimes {
    uint64_t asked_ns = 0;   // the server's request was read
    uint64_t begun_ns = 0;   // the visits' thread has it
    uint64_t worked_ns = 0;  // its work is done
    uint64_t told_ns = 0;    // the answer was sent
  };

  explicit Trace(ProcessFile file) : file_(std::move(file)) {}

  // Adds a call. Questions for the addresses of functions are left out: a program asks hundreds, and the client answers them.
  // `waits`: answers and marks that the call waited for. Any thread.
  void AddCall(const CallInfo& info, uint32_t thread, uint64_t begin_ns, uint32_t waits) EXCLUDES(mutex_);
  // `begin_ns`: when the call that sent the record began; 0: unknown.
  void AddSent(const CallInfo& info, const Session& session, uint64_t sequence, uint32_t thread, uint64_t begin_ns)
      EXCLUDES(mutex_);
  // A record asked for visit `number`; the visit was made.
  void AddVisitSent(uint64_t number, const Session& session, uint64_t sequence) EXCLUDES(mutex_);
  void AddVisit(uint64_t number, const VisitTimes& times) EXCLUDES(mutex_);

  // Writes the calls, and what the worker of each session has executed. Called at the end of the process, while the sessions
  // still live.
  void Write(std::span<Session* const> sessions, std::span<const Worker> workers) EXCLUDES(mutex_);

 private:
  struct CallEvent {
    const CallInfo* info;
    uint32_t thread;
    uint32_t waits;
    uint64_t begin_ns, end_ns;
  };
  struct SentEvent {
    const CallInfo* info;
    const Session* session;
    uint64_t sequence;
    uint32_t thread;
    uint64_t begin_ns;  // of its call; 0: unknown
    uint64_t ns;
  };
  using SentBySequence = std::map<uint64_t, const SentEvent*>;  // of one session
  using SentBySession = std::vector<SentBySequence>;
  struct VisitEvent {
    const Session* session = nullptr;
    uint64_t sequence = 0;
    VisitTimes times;
  };
  // How far the worker's clock is ahead of the program's.
  static int64_t AheadNs(const Worker& worker, const SentBySequence& sent);
  void AddCalls(const SentBySession& sent, std::span<const TracedWork> work, std::string* text) const REQUIRES(mutex_);
  void AddExecutionsOf(const Session& session, size_t process, const Worker& worker, const TracedWork& work,
                       const SentBySequence& by_sequence, uint64_t ahead_ns, std::string* text) const REQUIRES(mutex_);
  void AddVisitsOf(const Session& session, size_t process, const Worker& worker, uint64_t ahead_ns, std::string* text) const
      REQUIRES(mutex_);
  std::string ToJson(std::span<Session* const> sessions, std::span<const Worker> workers) const EXCLUDES(mutex_);

  const ProcessFile file_;
  mutable Mutex mutex_;
  std::vector<CallEvent> calls_ GUARDED_BY(mutex_);
  std::vector<SentEvent> sent_ GUARDED_BY(mutex_);
  std::map<uint64_t, VisitEvent> visits_ GUARDED_BY(mutex_);    // by number
  std::map<uint32_t, std::string> threads_ GUARDED_BY(mutex_);  // names of those that called, as they were then
  uint64_t lost_ GUARDED_BY(mutex_) = 0;                        // beyond kTraceEventsMax
};

}  // namespace tessera
