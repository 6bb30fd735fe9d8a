#include "server/worker/reply_writer.h"

#include <cuda.h>

#include <cstring>
#include <string>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/worker.h"

namespace tessera {

ReplyWriter::ReplyWriter(Worker& worker) : worker_(worker) {}

void ReplyWriter::BeforeSending(std::function<void(ReplyKind)> before) {
  MutexLock lock(before_mutex_);
  before_ = std::move(before);
  has_before_.store(true, std::memory_order_release);
}

bool ReplyWriter::Send(ReplyHeader header, std::span<const std::byte> payload) {
  const auto kind = static_cast<ReplyKind>(header.kind);
  if (has_before_.load(std::memory_order_acquire) && kind != ReplyKind::kHostChanges && kind != ReplyKind::kDelivery) {
    std::function<void(ReplyKind)> before;
    {
      MutexLock lock(before_mutex_);
      before = before_;
    }
    before(kind);
  }
  // The driver may have said more on stderr: a failed assertion does, and the emulator always.
  if (header.result != CUDA_SUCCESS && header.result != CUDA_ERROR_NOT_READY) worker_.DrainDeviceOutput();
  RingProducer& replies = worker_.channel().replies_out();
  const size_t size = PaddedRecordBytes(sizeof(header) + payload.size());
  if (size > replies.record_bytes_max()) {
    // Handlers bound what they answer; a reply that comes here anyway must not leave its caller waiting for ever.
    LogError("an answer of {} bytes does not fit a record of {}", payload.size(), replies.record_bytes_max());
    if (header.kind != static_cast<uint32_t>(ReplyKind::kReply)) return false;
    header.result = CUDA_ERROR_OUT_OF_MEMORY;
    return Send(header, {});
  }
  header.size_bytes = static_cast<uint32_t>(size);
  MutexLock lock(mutex_);
  if (worker_.ended()) return false;
  std::byte* record = replies.TryReserve(size);
  while (record == nullptr) {
    const Status status = replies.WaitForSpace(size, MonotonicNs() + worker_.options().reply_wait_ns, worker_.channel().stop());
    if (!status.ok()) {
      worker_.End(status.code() == StatusCode::kTimedOut
                      ? Status(StatusCode::kTimedOut, "the client has not read its replies for " +
                                                          std::to_string(worker_.options().reply_wait_ns / 1'000'000) + " ms")
                      : status);
      return false;
    }
    record = replies.TryReserve(size);
  }
  std::memcpy(record, &header, sizeof(header));
  if (!payload.empty()) std::memcpy(record + sizeof(header), payload.data(), payload.size());
  if (const size_t used = sizeof(header) + payload.size(); used < size) std::memset(record + used, 0, size - used);
  replies.Commit();
  return true;
}

}  // namespace tessera
