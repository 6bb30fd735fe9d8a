#include "server/worker/worker.h"

#include <utility>

#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/aside_executor.h"
#include "server/worker/completion.h"
#include "server/worker/device_output.h"
#include "server/worker/driver_thread.h"
#include "server/worker/executor.h"
#include "server/worker/helper_pool.h"
#include "server/worker/object_table.h"
#include "server/worker/reply_writer.h"
#include "server/worker/thread_streams.h"

namespace tessera {
namespace {

uint64_t NextSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Worker::Worker(Channel& channel, const DriverTable& driver, const WorkerOptions& options)
    : channel_(channel),
      driver_(driver),
      options_(options),
      serial_(NextSerial()),
      objects_(std::make_unique<ObjectTable>(options.session_index)),
      replies_(std::make_unique<ReplyWriter>(*this)),
      thread_streams_(std::make_unique<ThreadStreams>(driver)),
      aside_(std::make_unique<AsideExecutor>(*this)),
      answers_(std::make_unique<AnswerHub>(*this)),
      completion_(std::make_unique<Completion>(*this)),
      helpers_(std::make_unique<HelperPool>()) {}

Worker::~Worker() {
  End(Status(StatusCode::kUnavailable, "the worker was stopped"));
  // Host functions that wait for the client go first: a helper may be inside a driver call that waits for them.
  answers_->Stop();
  aside_->Stop();
  helpers_->Stop();
  completion_->Stop();
}

Status Worker::Run() {
  Executor executor(*this);
  executor.Run();
  End(Status::Ok());
  MutexLock lock(end_mutex_);
  return end_reason_;
}

void Worker::End(Status reason) {
  {
    MutexLock lock(end_mutex_);
    if (ended_.load(std::memory_order_relaxed)) return;
    end_reason_ = reason;
    ended_.store(true, std::memory_order_release);
  }
  if (reason.ok()) {
    channel_.Leave();
  } else {
    channel_.Fail(std::move(reason));
  }
}

CUresult Worker::SetContext(HandleId context) {
  uint64_t object = 0;
  if (context.kind() == HandleKind::kContext) objects_->Find(context, &object);
  return SetContext(reinterpret_cast<CUcontext>(object));
}

CUresult Worker::SetContext(CUcontext context) { return DriverThread::Of(*this).SetContext(*this, context); }

CUcontext Worker::CurrentContext() { return DriverThread::Of(*this).current(); }

void Worker::ForgetCurrentContext() { DriverThread::Of(*this).Forget(); }

bool Worker::SendNotice(NoticeKind kind, uint64_t extra, CUresult result, std::span<const std::byte> payload) {
  ReplyHeader header{};
  header.kind = static_cast<uint32_t>(kind);
  header.result = static_cast<int32_t>(result);
  header.extra = extra;
  return replies_->Send(header, payload);
}

void Worker::DrainDeviceOutput() {
  if (options_.device_output == nullptr) return;
  options_.device_output->Drain([this](DeviceOutput::Stream stream, std::span<const std::byte> piece) {
    const auto kind = stream == DeviceOutput::Stream::kErrors ? NoticeKind::kDeviceErrors : NoticeKind::kDeviceOutput;
    SendNotice(kind, piece.size(), CUDA_SUCCESS, piece);
  });
}

}  // namespace tessera
