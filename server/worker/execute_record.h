// What the executor and AsideExecutor have in common: the check of a record's header, and the execution of a record.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>

#include "generated/server/dispatch.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/record.h"
#include "server/worker/call_context.h"
#include "server/worker/threads/driver_thread.h"
#include "server/worker/trace_log.h"
#include "server/worker/worker.h"

namespace tessera {

// Flags and thread are such as a correct client sends.
inline bool IsWellFormed(const RecordHeader& header) { return (header.flags & ~kRecordFlags) == 0 && header.thread != 0; }

// Ends the session because of this header.
void RefuseHeader(Worker& worker, const RecordHeader& header);

// What a blocking call waits for at the gate before a helper thread has it. Executor thread.
void AwaitRecord(Worker& worker, const RecordHeader& header, std::span<const std::byte> message);

// Executes one record on the calling thread: executor, helper or aside thread. Here, so that the executor's loop has no call more
// for it.
inline void ExecuteRecord(Worker& worker, const RecordHeader& header, std::span<const std::byte> message) {
  const TraceScope traced(worker.trace(), header);
  DriverThread::Of(worker.serial()).BeginCall();
  CallContext call(worker, header);
  if (const CUresult result = worker.SetContext(header); result != CUDA_SUCCESS) return call.Finish(result);
  Decoder in(message);
  Dispatch(header.call, call, in);
}

}  // namespace tessera
