#include "server/worker/execute_record.h"

#include "protocol/base/log.h"

namespace tessera {

void RefuseHeader(Worker& worker, const RecordHeader& header) {
  worker.End(Status(StatusCode::kProtocolViolation,
                    fmt::format("malformed record header: call {:#x}, flags {:#x}, thread {}, sequence {}", header.call,
                                header.flags, header.thread, header.sequence)));
}

void AwaitRecord(Worker& worker, const RecordHeader& header, std::span<const std::byte> message) {
  DriverThread::Of(worker.serial()).BeginCall();
  if (worker.SetContext(header) != CUDA_SUCCESS) return;  // the call itself will say so
  CallContext call(worker, header);
  Decoder in(message);
  AwaitTurnOf(header.call, call, in);
}

}  // namespace tessera
