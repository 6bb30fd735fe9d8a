#include "client-stub/streams/stream_visit.h"

#include <memory>
#include <utility>

#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/stream_state.h"
#include "generated/messages/service.h"

namespace tessera {
namespace {

// Counts the visit that it belongs to.
struct Waiting {
  Waiting() { VisitCounts::Process().waiting.fetch_add(1, std::memory_order_relaxed); }
  ~Waiting() { VisitCounts::Process().waiting.fetch_sub(1, std::memory_order_relaxed); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
};

uint64_t Add(Session& session, Visit visit, bool repeats) {
  VisitCounts::Process().used.store(true, std::memory_order_relaxed);
  HostFunction function;
  function.visit = std::make_shared<const Visit>(std::move(visit));
  function.repeats = repeats;
  return HostFunctionsOfProcess().Add(function);
}

}  // namespace

CUresult VisitStream(BasicCall& call, HandleId stream, Visit visit, const Range& written, uint64_t ahead) {
  tesseraStreamVisitRequest request;
  request.stream = stream;
  request.ahead = ahead;
  visit = [visit = std::move(visit), counted = std::make_shared<Waiting>()](const GoOn& go_on) { visit(go_on); };
  request.function = Add(call.session(), std::move(visit), false);
  request.written_address = written.base;
  request.written_bytes = written.bytes;
  const CUresult result = call.AsyncAs(request);
  if (result != CUDA_SUCCESS) {
    HostFunctionsOfProcess().Drop(request.function);
  } else if (Trace* const trace = Client::Get().trace()) {
    trace->AddVisitSent(request.function, call.session(), call.sequence());
  }
  return result;
}

CUresult AwaitVisits(BasicCall& call, HandleId stream, uint64_t ahead) {
  tesseraStreamVisitRequest request;  // of no function
  request.stream = stream;
  request.ahead = ahead;
  return call.AsyncAs(request);
}

uint64_t AddVisit(Session& session, Visit visit) { return Add(session, std::move(visit), true); }

}  // namespace tessera
