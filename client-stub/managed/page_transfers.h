// Moves bytes between managed blocks on the device and the memory behind them here, and waits for streams.
//
// The bytes go through the staging segment, like copies of ordinary memory. So the server pins nothing for managed memory, and
// two hosts work as well as one. Each context has a non-blocking stream for it, so only Wait() waits for the application's work.
// Service threads only (service_thread.h). The owner holds a lock, except around Wait().
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

  // Copies to the device. When this returns the source was read; when Finish() returns the device has it. A null context means
  // the primary context of device 0, which is retained if nobody has it.
  CUresult Upload(HandleId context, uint64_t to, const std::byte* from, uint64_t bytes);
  CUresult Clear(HandleId context, uint64_t address, uint64_t bytes);
  // Waits until all uploads of the context are done; or why they failed.
  CUresult Finish(HandleId context);
  // Copies from the device; done when this returns.
  CUresult Download(HandleId context, std::byte* to, uint64_t from, uint64_t bytes);

  // Waits until the work that the stream has now is done. While streams are captured, default streams and captured ones are not
  // asked, since that would end the capture. Their work was waited for before the capture began (ManagedMemory::BeforeCapture).
  CUresult Wait(const WorkedStream& stream);

  void EndContext(HandleId context) { streams_.erase(context.value()); }

 private:
  CUresult Enter(HandleId context);
  CUresult StreamOf(HandleId context, HandleId* stream);

  Session& session_;
  std::map<uint64_t, HandleId> streams_;  // by context
};

}  // namespace tessera
