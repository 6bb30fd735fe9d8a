// Moves bytes between managed blocks on the device and the memory behind them here, and waits for streams.
//
// Through the staging segment, like copies of ordinary memory: so the server pins nothing for managed memory, and two hosts
// are served as well as one. In a non-blocking stream of its own per context: no work of the application's is waited for,
// except where Wait() says so. Service threads only (service_thread.h); the owner has a lock, except around Wait().
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "client-stub/managed/pending_work.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Session;

class PageTransfers {
 public:
  explicit PageTransfers(Session& session) : session_(session) {}

  // To the device. The source is read when this returns, the device has it when Finish() returns. A null context means
  // the primary context of device 0, which is retained if nobody has it.
  CUresult Upload(HandleId context, uint64_t to, const std::byte* from, uint64_t bytes);
  CUresult Clear(HandleId context, uint64_t address, uint64_t bytes);
  // All uploads of the context are done, or why not.
  CUresult Finish(HandleId context);
  // From the device; done when it returns.
  CUresult Download(HandleId context, std::byte* to, uint64_t from, uint64_t bytes);

  // The work that the stream has now is done. While streams are captured, default streams and the captured ones are not
  // asked, which would end the capture: their work was waited for when it began (ManagedMemory::BeforeCapture).
  CUresult Wait(const WorkedStream& stream);

  void EndContext(HandleId context) { streams_.erase(context.value()); }

 private:
  CUresult Enter(HandleId context);
  CUresult StreamOf(HandleId context, HandleId* stream);

  Session& session_;
  std::map<uint64_t, HandleId> streams_;  // by context
};

}  // namespace tessera
