#include "client-stub/transfers/publish.h"

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {

void PublishFromVisit(Session& session, uint64_t address, uint64_t bytes) {
  if (!session.mirrored()) return;
  uint32_t segment = 0;
  uint64_t offset = 0;
  if (!session.memory().host().Locate(address, bytes, &segment, &offset)) return;
  const Status published = session.channel().Publish(segment, offset, bytes, TransferRing::kAnswers);
  if (!published.ok()) LogDebug("what a visit wrote was not published: {}", published.message());
}

}  // namespace tessera
