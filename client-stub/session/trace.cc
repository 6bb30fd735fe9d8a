#include "client-stub/session/trace.h"

#include <fmt/core.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>

#include "client-stub/process/call_info.h"
#include "client-stub/session/session.h"
#include "client-stub/session/trace_lines.h"
#include "client-stub/session/trace_work.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

std::string OwnThreadName() {
  std::array<char, 16> name = {};  // as PR_GET_NAME has it, with its end
  return prctl(PR_GET_NAME, name.data()) == 0 ? name.data() : "thread";
}

}  // namespace

void Trace::AddCall(const CallInfo& info, uint32_t thread, uint64_t begin_ns, uint32_t waits) {
  const uint64_t end_ns = MonotonicNs();
  if (std::string_view(info.name).starts_with("cuGetProcAddress")) return;
  MutexLock lock(mutex_);
  if (!threads_.contains(thread)) threads_[thread] = OwnThreadName();
  if (calls_.size() == kTraceEventsMax) {
    ++lost_;
  } else {
    calls_.push_back({&info, thread, waits, begin_ns, end_ns});
  }
}

void Trace::AddSent(const CallInfo& info, const Session& session, uint64_t sequence, uint32_t thread, uint64_t begin_ns) {
  const uint64_t now_ns = MonotonicNs();
  MutexLock lock(mutex_);
  if (sent_.size() == kTraceEventsMax) {
    ++lost_;
  } else {
    sent_.push_back({&info, &session, sequence, thread, begin_ns, now_ns});
  }
}

void Trace::AddVisitSent(uint64_t number, const Session& session, uint64_t sequence) {
  MutexLock lock(mutex_);
  if (visits_.size() == kTraceEventsMax) {
    ++lost_;
    return;
  }
  VisitEvent& visit = visits_[number];  // it may be over
  visit.session = &session;
  visit.sequence = sequence;
}

void Trace::AddVisit(uint64_t number, const VisitTimes& times) {
  MutexLock lock(mutex_);
  if (visits_.size() < kTraceEventsMax) visits_[number].times = times;
}

int64_t Trace::AheadNs(const Worker& worker, const SentBySequence& sent) {
  int64_t ahead_ns = worker.ahead_ns;
  for (const TraceEvent& event : worker.events) {
    const auto found = sent.find(event.sequence);
    if (event.call == kTraceVisit || found == sent.end() || found->second->begin_ns == 0) continue;
    ahead_ns = std::min(ahead_ns, static_cast<int64_t>(event.begin_ns - found->second->begin_ns));
  }
  return ahead_ns;
}

void Trace::AddVisitsOf(const Session& session, size_t process, const Worker& worker, uint64_t ahead_ns,
                        std::string* text) const {
  std::map<uint64_t, const TraceEvent*> by_sequence;
  for (const TraceEvent& event : worker.events) {
    if (event.call == kTraceVisit) by_sequence[event.sequence] = &event;
  }
  for (const auto& [number, visit] : visits_) {
    const auto found = by_sequence.find(visit.sequence);
    if (visit.session != &session || visit.times.told_ns == 0 || found == by_sequence.end()) continue;
    const auto& [asked_ns, begun_ns, worked_ns, told_ns] = visit.times;
    const TraceEvent& event = *found->second;
    *text += fmt::format(
        ",\n{{\"ph\":\"X\",\"name\":\"visit\",\"cat\":\"visit\",\"pid\":1,\"tid\":0,\"ts\":{},\"dur\":{},"
        "\"args\":{{\"id\":\"{}.{}\",\"asked\":{},\"worked\":{}}}}}"
        ",\n{{\"ph\":\"X\",\"name\":\"visit\",\"cat\":\"visited\",\"pid\":{},\"tid\":0,\"ts\":{},\"dur\":{},"
        "\"args\":{{\"id\":\"{}.{}\"}}}}",
        TraceUs(begun_ns), TraceUs(told_ns - begun_ns), process, visit.sequence, TraceUs(asked_ns), TraceUs(worked_ns), process,
        TraceUs(event.begin_ns - ahead_ns), TraceUs(event.end_ns - event.begin_ns), process, visit.sequence);
  }
}

void Trace::AddCalls(const SentBySession& sent, std::span<const TracedWork> work, std::string* text) const {
  std::map<std::pair<uint32_t, uint64_t>, std::string_view> kernels;  // by thread and begin of the call
  for (size_t i = 0; i < work.size(); ++i) {
    for (const auto& [sequence, record] : sent[i]) {
      const std::string_view kernel = work[i].KernelOf(sequence);
      if (!kernel.empty()) kernels[{record->thread, record->begin_ns}] = kernel;
    }
  }
  for (const CallEvent& call : calls_) {
    *text += fmt::format(
        ",\n{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"call\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"waits\":{}",
        call.info->name, call.thread, TraceUs(call.begin_ns), TraceUs(call.end_ns - call.begin_ns), call.waits);
    const auto found = kernels.find({call.thread, call.begin_ns});
    if (found != kernels.end()) *text += fmt::format(",\"kernel\":\"{}\"", found->second);
    *text += "}}";
  }
}

void Trace::AddExecutionsOf(const Session& session, size_t process, const Worker& worker, const TracedWork& work,
                            const SentBySequence& by_sequence, uint64_t ahead_ns, std::string* text) const {
  for (const TraceEvent& event : worker.events) {
    if (event.call == kTraceVisit) continue;
    const auto found = by_sequence.find(event.sequence);
    if (found == by_sequence.end()) continue;  // from before the trace began
    const SentEvent& sent = *found->second;
    const char* const name = sent.info->name;
    const uint64_t begin_ns = event.begin_ns - ahead_ns;
    const std::string id = fmt::format("\"{}.{}\"", process, event.sequence);
    const char* const way = session.mirrored() ? "link and queue" : "queue";
    // A worker may take a record before the program has noted that it was sent.
    *text += fmt::format(
        ",\n{{\"ph\":\"b\",\"name\":\"{0}\",\"cat\":\"{1}\",\"id\":{2},\"pid\":{3},\"tid\":0,\"ts\":{4}}}"
        ",\n{{\"ph\":\"e\",\"name\":\"{0}\",\"cat\":\"{1}\",\"id\":{2},\"pid\":{3},\"tid\":0,\"ts\":{5}}}",
        name, way, id, process, TraceUs(std::min(sent.ns, begin_ns)), TraceUs(begin_ns));
    *text += fmt::format(",\n{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"execution\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}",
                         name, process, event.thread, TraceUs(begin_ns), TraceUs(event.end_ns - event.begin_ns));
    *text += fmt::format(",\"args\":{{\"thread\":{}", sent.thread);
    const std::string& kernel = work.KernelOf(event.sequence);
    if (!kernel.empty()) *text += fmt::format(",\"kernel\":\"{}\"", kernel);
    *text += "}}";
    *text += fmt::format(
        ",\n{{\"ph\":\"s\",\"name\":\"record\",\"cat\":\"record\",\"id\":{0},\"pid\":1,\"tid\":{1},\"ts\":{2}}}"
        ",\n{{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"record\",\"cat\":\"record\",\"id\":{0},\"pid\":{3},\"tid\":{4},\"ts\":{5}}}",
        id, sent.thread, TraceUs(std::min(sent.ns, begin_ns)), process, event.thread, TraceUs(begin_ns));
  }
}

std::string Trace::ToJson(std::span<Session* const> sessions, std::span<const Worker> workers) const {
  MutexLock lock(mutex_);
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + TraceProcessLine(1, program_invocation_short_name);
  for (const auto& [thread, name] : threads_) text += ",\n" + TraceThreadLine(1, thread, name);
  SentBySession sent(sessions.size());
  for (const SentEvent& one : sent_) {
    const auto session = static_cast<size_t>(std::ranges::find(sessions, one.session) - sessions.begin());
    if (session < sessions.size()) sent[session][one.sequence] = &one;
  }
  std::vector<TracedWork> work;
  for (const Worker& worker : workers) work.emplace_back(worker.work, worker.names);
  AddCalls(sent, work, &text);
  uint64_t unmeasured = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const size_t process = 2 + i;
    const auto ahead_ns = static_cast<uint64_t>(AheadNs(workers[i], sent[i]));
    text += ",\n" + TraceProcessLine(process, "worker of " + sessions[i]->Name());
    AddExecutionsOf(*sessions[i], process, workers[i], work[i], sent[i], ahead_ns, &text);
    AddVisitsOf(*sessions[i], process, workers[i], ahead_ns, &text);
    work[i].AddLanes(process + sessions.size(), "GPU of " + sessions[i]->Name(), ahead_ns, &text);
    unmeasured += work[i].unmeasured();
  }
  return text + fmt::format("\n],\"otherData\":{{\"tessera_trace\":{},\"events_lost\":{},\"launches_unmeasured\":{}}}}}\n",
                            kVersion, lost_, unmeasured);
}

void Trace::Write(std::span<Session* const> sessions, std::span<const Worker> workers) {
  if (file_.Write(ToJson(sessions, workers))) return;
  LogWarning("the trace could not be written to {}: {}; name a file that this user may write (TESSERA_TRACE)", file_.path(),
             std::strerror(errno));
}

}  // namespace tessera
