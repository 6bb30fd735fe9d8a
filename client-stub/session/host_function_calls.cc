#include "client-stub/session/host_function_calls.h"

#include "generated/messages/event.h"
#include "generated/messages/stream.h"

namespace tessera {

bool AboutStreamsAndEvents(const CallInfo& info) {
  constexpr uint32_t kStreams = 0x0d, kEvents = 0x0e, kCaptures = 0x0f;  // first byte of the ids of these domains
  const uint32_t domain = info.id >> 8;
  return domain == kStreams || domain == kEvents || domain == kCaptures;
}

bool UnfinishedIsAnAnswer(const CallInfo& info) {
  return info.id == cuEventQueryRequest::kId || info.id == cuStreamQueryRequest::kId ||
         info.id == cuEventElapsedTimeRequest::kId || info.id == cuEventElapsedTime_v2Request::kId;
}

bool AllowedInHostFunction(const CallInfo& info) {
  if (info.context == CallInfo::Context::kUninitialized) return true;
  if (info.id == cuStreamCreateRequest::kId || info.id == cuStreamCreateWithPriorityRequest::kId ||
      info.id == cuEventCreateRequest::kId) {
    return false;
  }
  return AboutStreamsAndEvents(info);
}

}  // namespace tessera
