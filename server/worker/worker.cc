#include "server/worker/worker.h"

#include "server/worker/answer_hub.h"
#include "server/worker/completion.h"
#include "server/worker/done_words.h"
#include "server/worker/gpu_times.h"
#include "server/worker/helper_pool.h"
#include "server/worker/object_table.h"
#include "server/worker/reply_writer.h"
#include "server/worker/thread_streams.h"

namespace tessera {

Worker::Worker(Channel& channel, const DriverTable& driver, const WorkerOptions& options)
    : channel_(channel),
      driver_(driver),
      options_(options),
      end_(channel),
      contexts_(driver),
      objects_(std::make_unique<ObjectTable>(options.session_index)),
      replies_(std::make_unique<ReplyWriter>(channel, end_, options.device_output, options.reply_wait_ns)),
      thread_streams_(std::make_unique<ThreadStreams>(driver)),
      done_words_(std::make_unique<DoneWords>(driver, contexts_)),
      implicit_order_(driver, *done_words_),
      gate_(driver, contexts_, busy_streams_, options.gate),
      output_watch_(*replies_),
      answers_(std::make_unique<AnswerHub>(channel, end_)),
      completion_(std::make_unique<Completion>(driver, contexts_, *done_words_)),
      helpers_(std::make_unique<HelperPool>()),
      gpu_times_(std::make_unique<GpuTimes>(driver, contexts_)) {
  parts_ = std::make_unique<SessionParts>(*this);
}

Worker::~Worker() {
  End(Status(StatusCode::kUnavailable, "the worker was stopped"));
  // Host functions that wait for the client go first: a helper may be inside a driver call that waits for them.
  answers_->Stop();
  helpers_->Stop();
  completion_->Stop();
}

CUresult Worker::SetContext(HandleId context) {
  uint64_t object = 0;
  if (context.kind() == HandleKind::kContext) objects_->Find(context, &object);
  return SetContext(reinterpret_cast<CUcontext>(object));
}

bool Worker::SendNotice(NoticeKind kind, uint64_t extra, CUresult result, std::span<const std::byte> payload) {
  return replies_->SendNotice(kind, extra, result, payload);
}

void Worker::WarnProgram(std::string_view sentence) {
  constexpr int kWarningsMax = 8;
  if (warnings_.fetch_add(1) >= kWarningsMax) return;
  const std::string line = "tessera: warning: " + std::string(sentence) + "\n";
  SendNotice(NoticeKind::kDeviceErrors, line.size(), CUDA_SUCCESS, std::as_bytes(std::span(line)));
}

void Worker::DrainDeviceOutput() { replies_->DrainDeviceOutput(); }

}  // namespace tessera
