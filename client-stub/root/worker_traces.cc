#include "client-stub/root/worker_traces.h"

#include <cstring>
#include <limits>

#include "client-stub/session/basic_call.h"
#include "client-stub/session/session.h"
#include "generated/messages/service.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

constexpr int kClockQuestions = 8;

constexpr CallInfo Internal(const char* name, uint32_t id, CallInfo::Mode mode) {
  return CallInfo{name, id, mode, CallInfo::Context::kUninitialized, CallInfo::Capture::kLegal, false, nullptr};
}
constexpr CallInfo kStart = Internal("tesseraTraceStart", tesseraTraceStartRequest::kId, CallInfo::Mode::kAsync);
constexpr CallInfo kRead = Internal("tesseraTraceRead", tesseraTraceReadRequest::kId, CallInfo::Mode::kSync);
constexpr CallInfo kWork = Internal("tesseraTraceWork", tesseraTraceWorkRequest::kId, CallInfo::Mode::kSync);

bool Read(Session& session, uint64_t first, uint64_t count, tesseraTraceReadReply* reply) {
  BasicCall call(kRead, session);
  tesseraTraceReadRequest request;
  request.first = first;
  request.count = count;
  return call.Sync(request, reply) == CUDA_SUCCESS;
}

// Fetches what the worker's GPU was given. Comes after AskEvents().
void AskWork(Session& session, Trace::Worker* worker) {
  std::vector<TraceWork>& work = worker->work;
  for (;;) {
    BasicCall call(kWork, session);
    tesseraTraceWorkRequest request;
    request.first = work.size();
    request.count = kTraceEventsMax;
    request.first_name = worker->names.size();
    tesseraTraceWorkReply reply;
    if (call.Sync(request, &reply) != CUDA_SUCCESS) return;
    const size_t count = reply.work.size() / sizeof(TraceWork);
    if ((count == 0 && reply.names.empty()) || work.size() + count > kTraceEventsMax) return;
    if (worker->names.size() + reply.names.size() > kTraceEventsMax) return;
    work.resize(work.size() + count);
    if (count > 0) std::memcpy(&work[work.size() - count], reply.work.data(), count * sizeof(TraceWork));
    worker->names.insert(worker->names.end(), reply.names.begin(), reply.names.end());
  }
}

// Fetches the worker's events, and by how much its clock is ahead of ours. False: the worker is gone.
bool AskEvents(Session& session, Trace::Worker* asked) {
  Trace::Worker& worker = *asked;
  uint64_t best_ns = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kClockQuestions; ++i) {
    const uint64_t before_ns = MonotonicNs();
    tesseraTraceReadReply reply;
    if (!Read(session, 0, 0, &reply)) return false;
    const uint64_t took_ns = MonotonicNs() - before_ns;
    if (took_ns >= best_ns) continue;
    best_ns = took_ns;
    worker.ahead_ns = static_cast<int64_t>(reply.now_ns - (before_ns + took_ns / 2));
  }
  if (!session.mirrored()) worker.ahead_ns = 0;  // one host has one clock
  for (;;) {
    tesseraTraceReadReply reply;
    if (!Read(session, worker.events.size(), kTraceEventsMax, &reply)) return false;
    const size_t count = reply.events.size() / sizeof(TraceEvent);
    if (count == 0 || worker.events.size() + count > kTraceEventsMax) return true;
    worker.events.resize(worker.events.size() + count);
    std::memcpy(worker.events.data() + worker.events.size() - count, reply.events.data(), count * sizeof(TraceEvent));
  }
}

}  // namespace

void StartWorkerTrace(Session& session) {
  BasicCall call(kStart, session);
  (void)call.Async(tesseraTraceStartRequest{});
}

std::vector<Trace::Worker> AskWorkerTraces(std::span<Session* const> sessions) {
  std::vector<Trace::Worker> workers;
  for (Session* session : sessions) {
    Trace::Worker& worker = workers.emplace_back();
    if (AskEvents(*session, &worker)) AskWork(*session, &worker);
  }
  return workers;
}

}  // namespace tessera
