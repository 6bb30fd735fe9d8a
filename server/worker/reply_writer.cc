#include "server/worker/reply_writer.h"

#include <cstring>
#include <string>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/device_output.h"
#include "server/worker/session_end.h"

namespace tessera {

ReplyWriter::ReplyWriter(Channel& channel, SessionEnd& end, DeviceOutput* output, uint64_t wait_ns)
    : channel_(channel), end_(end), output_(output), wait_ns_(wait_ns) {}

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
  if (header.result != CUDA_SUCCESS && header.result != CUDA_ERROR_NOT_READY) DrainDeviceOutput();
  RingProducer& replies = channel_.replies_out();
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
  if (end_.ended()) return false;
  std::byte* record = replies.TryReserve(size);
  while (record == nullptr) {
    const Status status = replies.WaitForSpace(size, MonotonicNs() + wait_ns_, channel_.stop());
    if (!status.ok()) {
      end_.End(status.code() == StatusCode::kTimedOut
                   ? Status(StatusCode::kTimedOut,
                            "the client has not read its replies for " + std::to_string(wait_ns_ / 1'000'000) + " ms")
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

bool ReplyWriter::SendNotice(NoticeKind kind, uint64_t extra, CUresult result, std::span<const std::byte> payload) {
  ReplyHeader header{};
  header.kind = static_cast<uint32_t>(kind);
  header.result = static_cast<int32_t>(result);
  header.extra = extra;
  return Send(header, payload);
}

void ReplyWriter::DrainDeviceOutput() {
  if (output_ == nullptr) return;
  output_->Drain([this](DeviceOutput::Stream stream, std::span<const std::byte> piece) {
    const auto kind = stream == DeviceOutput::Stream::kErrors ? NoticeKind::kDeviceErrors : NoticeKind::kDeviceOutput;
    SendNotice(kind, piece.size(), CUDA_SUCCESS, piece);
  });
}

}  // namespace tessera
