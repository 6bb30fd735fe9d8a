#include "server/worker/execute_record.h"

#include "protocol/base/log.h"

namespace tessera {

void RefuseHeader(Worker& worker, const RecordHeader& header) {
  worker.End(Status(StatusCode::kProtocolViolation,
                    fmt::format("malformed record header: call {:#x}, flags {:#x}, thread {}, sequence {}", header.call,
                                header.flags, header.thread, header.sequence)));
}

}  // namespace tessera
