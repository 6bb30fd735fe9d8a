#include "client-stub/root/host_function_runs.h"

#include <atomic>
#include <cstring>
#include <string>

#include "client-stub/managed/fault_handler.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/root/stream_runs.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/host_functions.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/runtime/sticky_error.h"

namespace tessera {
namespace {

// What the program's functions and copies use may be destroyed then. Their streams go on, since an exit handler may wait for one.
// Asked once the run is counted.
bool ProcessEnds() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return Client::Get().calls_ended();
}

}  // namespace

void RunHostFunctionsOf(Session& session) {
  session.OnNotice(NoticeKind::kHostFunction, [&session](const ReplyHeader& header, std::span<const std::byte> payload) {
    uint64_t number = 0;
    if (payload.size() < sizeof(number)) return session.ProtocolViolation("a host function request without its number");
    std::memcpy(&number, payload.data(), sizeof(number));
    const uint64_t request = header.extra;
    const auto status = static_cast<CUresult>(header.result);
    HostFunction asked;
    if (!HostFunctionsOfProcess().Take(number, &asked)) {
      return session.ProtocolViolation("a request for a host function that does not exist");
    }
    if (asked.visit != nullptr) {
      Trace* const trace = Client::Get().trace();
      const uint64_t asked_ns = trace != nullptr ? MonotonicNs() : 0;
      return session.stream_visits().Post([&session, request, number, trace, asked_ns, visit = asked.visit] {
        const StreamRuns::Counted counted(StreamRuns::Process().visits);
        if (ProcessEnds()) return void(session.SendAnswer(request));
        const uint64_t begun_ns = trace != nullptr ? MonotonicNs() : 0;
        HostMirrors& mirrors = session.memory().mirrors();
        mirrors.ReconcileAll();
        (*visit)([&session, &mirrors, request, number, trace, asked_ns, begun_ns] {
          const uint64_t worked_ns = trace != nullptr ? MonotonicNs() : 0;
          mirrors.ReconcileForStream();
          if (session.SendAnswer(request) != CUDA_SUCCESS) LogDebug("the end of a visit was not told");
          if (trace != nullptr) trace->AddVisit(number, {asked_ns, begun_ns, worked_ns, MonotonicNs()});
        });
      });
    }
    session.host_functions().Post([&session, function = asked, request, status] {
      HostMirrors& mirrors = session.memory().mirrors();
      mirrors.ReconcileAll();
      if (!function.user_object.is_null()) session.handles().Release(function.user_object);
      if (const StreamRuns::Counted counted(StreamRuns::Process().functions); !ProcessEnds()) {
        HostFunctionFaults faults;
        if (function.callback != nullptr) {
          function.callback(function.stream, status, function.user_data);
        } else {
          function.function(function.user_data);
        }
      }
      if (request == 0) return mirrors.ReconcileAll();  // a destructor: no stream waits for it
      mirrors.ReconcileForStream();
      ManagedMemory& managed = ManagedMemory::Of(session);
      const CUresult pushed = managed.AfterHostFunction();
      // A stream of a broken context does not go on. Any other would, with other bytes than the function wrote.
      if (pushed != CUDA_SUCCESS && !IsStickyError(pushed)) {
        session.Abandon(Status(StatusCode::kInternal,
                               "what a host function wrote to managed memory cannot be brought to the "
                               "device, result " +
                                   std::to_string(pushed)));
      }
      if (session.SendAnswer(request) != CUDA_SUCCESS) LogDebug("the answer of a host function was not sent");
    });
  });
  session.OnNotice(NoticeKind::kHostFunctionReleased,
                   [](const ReplyHeader& header, std::span<const std::byte>) { HostFunctionsOfProcess().Drop(header.extra); });
}

}  // namespace tessera
