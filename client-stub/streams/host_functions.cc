#include "client-stub/streams/host_functions.h"

#include <cstring>

#include "client-stub/managed/fault_handler.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/deferred_errors.h"
#include "client-stub/session/session.h"
#include "generated/client/event.h"
#include "generated/client/stream.h"
#include "protocol/base/log.h"
#include "protocol/runtime/sticky_error.h"

namespace tessera {

uint64_t HostFunctionTable::Add(const HostFunction& function) {
  MutexLock lock(mutex_);
  const uint64_t number = next_++;
  functions_.emplace(number, function);
  return number;
}

bool HostFunctionTable::Take(uint64_t number, HostFunction* function) {
  MutexLock lock(mutex_);
  const auto entry = functions_.find(number);
  if (entry == functions_.end()) return false;
  *function = entry->second;
  if (!function->repeats) functions_.erase(entry);
  return true;
}

bool HostFunctionTable::Find(uint64_t number, HostFunction* function) const {
  MutexLock lock(mutex_);
  const auto entry = functions_.find(number);
  if (entry == functions_.end()) return false;
  *function = entry->second;
  return true;
}

void HostFunctionTable::Drop(uint64_t number) {
  HostFunction dropped;  // outside of the lock: what a visit owns goes with it
  MutexLock lock(mutex_);
  const auto entry = functions_.find(number);
  if (entry == functions_.end()) return;
  dropped = std::move(entry->second);
  functions_.erase(entry);
}

HostFunctionTable& HostFunctionsOfProcess() {
  static auto* table = new HostFunctionTable;
  return *table;
}

void AttachHostFunctions(Session& session) {
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
      return session.stream_visits().Post([&session, request, visit = asked.visit] {
        HostMirrors& mirrors = ClientMemory::Of(session).mirrors();
        mirrors.ReconcileAll();
        (*visit)([&session, &mirrors, request] {
          mirrors.ReconcileForStream();
          if (session.SendAnswer(request) != CUDA_SUCCESS) LogDebug("the end of a visit was not told");
        });
      });
    }
    session.host_functions().Post([&session, function = asked, request, status] {
      HostMirrors& mirrors = ClientMemory::Of(session).mirrors();
      mirrors.ReconcileAll();
      if (!function.user_object.is_null()) session.handles().Release(function.user_object);
      {
        HostFunctionFaults faults;
        if (function.callback != nullptr) {
          function.callback(function.stream, status, function.user_data);
        } else {
          function.function(function.user_data);
        }
      }
      if (request == 0) return mirrors.ReconcileAll();  // no stream waits for it
      mirrors.ReconcileForStream();
      ManagedMemory& managed = ClientMemory::Of(session).managed();
      const CUresult pushed = managed.AfterHostFunction();
      // A broken context does not go on. Any other stream would, with bytes that are not those which the function wrote.
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

bool AboutStreamsAndEvents(const CallInfo& info) {
  constexpr uint32_t kStreams = 0x0d, kEvents = 0x0e, kCaptures = 0x0f;  // first byte of the ids of these domains
  const uint32_t domain = info.id >> 8;
  return domain == kStreams || domain == kEvents || domain == kCaptures;
}

bool UnfinishedIsAnAnswer(const CallInfo& info) {
  return info.id == kInfo_cuEventQuery.id || info.id == kInfo_cuStreamQuery.id || info.id == kInfo_cuEventElapsedTime.id ||
         info.id == kInfo_cuEventElapsedTime_v2.id;
}

bool AllowedInHostFunction(const CallInfo& info) {
  if (info.context == CallInfo::Context::kUninitialized) return true;
  if (info.id == kInfo_cuStreamCreate.id || info.id == kInfo_cuStreamCreateWithPriority.id || info.id == kInfo_cuEventCreate.id) {
    return false;
  }
  return AboutStreamsAndEvents(info);
}

}  // namespace tessera
