#include "server/worker/memory/stream_copy.h"

#include <utility>

#include "generated/driver_table.h"
#include "protocol/channel/channel.h"
#include "server/worker/completion.h"
#include "server/worker/streams/synchronize.h"
#include "server/worker/worker.h"

namespace tessera {

void FinishAfter(CallContext& call, CUstream stream, CUresult result, uint64_t mark, const WrittenRange& written,
                 bool mark_reports) {
  Worker& worker = call.worker();
  const bool replies = call.wants_reply();
  worker.completion().NoteCopy(stream);
  if (result == CUDA_SUCCESS && replies) {
    // Nothing may be recorded on a stream that captures. The work is a node now, so there is nothing to wait for.
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    result = call.driver().cuStreamIsCapturing(stream, &capture);
    if (result == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE) return call.Finish(CUDA_SUCCESS);
  }
  if (result == CUDA_SUCCESS && (replies || mark != 0 || written.segment != 0)) {
    const auto done = [&worker, mark, written](CUresult outcome) {
      if (written.segment != 0 && outcome == CUDA_SUCCESS) {
        const Status published = worker.channel().Publish(written.segment, written.offset, written.bytes);
        if (!published.ok()) worker.End(published);
      }
      if (mark != 0) worker.SendNotice(NoticeKind::kCompletion, mark, outcome);
    };
    // Blocking copies are among the calls in which the driver writes out what kernels printed.
    if ((replies || (mark != 0 && mark_reports)) && worker.driver_chores().prints()) {
      if (!replies) {
        SynchronizeOnHelper(worker, stream, done);
        return call.Finish(CUDA_SUCCESS);
      }
      return SynchronizeOnHelper(worker, stream, [done, deferred = call.Defer()](CUresult outcome) mutable {
        done(outcome);
        deferred.Finish(outcome);
      });
    }
    if (!replies) {
      result = worker.completion().WhenDone(stream, done);
      if (result == CUDA_SUCCESS) return call.Finish(CUDA_SUCCESS);
    } else {
      auto deferred = call.Defer();
      result = worker.completion().WhenDone(stream, [done, deferred](CUresult outcome) mutable {
        done(outcome);
        deferred.Finish(outcome);
      });
      if (result == CUDA_SUCCESS) return;
      if (mark != 0) worker.SendNotice(NoticeKind::kCompletion, mark, result);
      return deferred.Finish(result);
    }
  }
  if (mark != 0) worker.SendNotice(NoticeKind::kCompletion, mark, result);
  call.Finish(mark != 0 && mark_reports ? CUDA_SUCCESS : result);
}

bool ExtentOf(uint64_t base, uint64_t pitch, uint64_t slice_rows, uint64_t width, uint64_t height, uint64_t depth,
              Range* extent) {
  *extent = Range{base, 0};
  if (width == 0 || height == 0 || depth == 0) return true;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t end = 0;
  if (__builtin_mul_overflow(depth - 1, slice_rows, &rows) || __builtin_add_overflow(rows, height - 1, &rows) ||
      __builtin_mul_overflow(rows, pitch, &bytes) || __builtin_add_overflow(bytes, width, &bytes) ||
      __builtin_add_overflow(base, bytes, &end)) {
    return false;
  }
  extent->bytes = bytes;
  return true;
}

WrittenRange WrittenAt(CallContext& call, uint64_t address, uint64_t bytes) {
  WrittenRange written;
  if (!call.worker().channel().mirrored()) return written;
  if (call.worker().parts().memory().host().Contains(address, bytes, &written.segment, &written.offset)) {
    written.bytes = bytes;
  }
  return written;
}

}  // namespace tessera
