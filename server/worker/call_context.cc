#include "server/worker/call_context.h"

#include <cstring>

#include "generated/messages/handle_errors.h"
#include "generated/server/dispatch.h"
#include "protocol/base/log.h"
#include "protocol/runtime/sticky_error.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/object_table.h"
#include "server/worker/recent_launches.h"
#include "server/worker/reply_writer.h"
#include "server/worker/thread_streams.h"
#include "server/worker/threads/driver_thread.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

void Answer(Worker& worker, const RecordHeader& record, CUresult result, std::span<const std::byte> payload) {
  if (IsStickyError(result)) worker.recent_launches().LogFailure(record, result);
  ReplyHeader header{};
  header.sequence = record.sequence;
  header.result = static_cast<int32_t>(result);
  header.thread = record.thread;
  if ((record.flags & kWantsReply) != 0) {
    header.kind = static_cast<uint32_t>(ReplyKind::kReply);
    if (worker.driver_chores().prints()) worker.DrainDeviceOutput();
  } else {
    if (result == CUDA_SUCCESS) return;
    LogDebug("{} of thread {} failed with {}", CallName(record.call), record.thread, static_cast<int>(result));
    header.kind = static_cast<uint32_t>(ReplyKind::kDeferredError);
    header.extra = record.context;
    payload = {};
  }
  worker.replies().Send(header, payload);
}

}  // namespace

CallContext::CallContext(Worker& worker, const RecordHeader& header) : worker_(worker), header_(header) {}

const DriverTable& CallContext::driver() const { return worker_.driver(); }

HandleId CallContext::holder() const { return worker_.objects().HolderOf(HandleId(header_.context)); }

uint64_t CallContext::Lookup(HandleId id, HandleKind kind) {
  if (id.is_null()) return 0;
  const bool kind_fits =
      kind == HandleKind::kNone || id.kind() == kind || (kind == HandleKind::kFunction && id.kind() == HandleKind::kKernel);
  uint64_t object = 0;
  if (kind_fits && worker_.objects().Find(id, &object)) return object;
  Fail(HandleError(kind == HandleKind::kNone ? id.kind() : kind));
  return 0;
}

CUstream CallContext::UseStream(HandleId id) {
  const uint64_t value = id.value();
  const bool legacy = value == reinterpret_cast<uint64_t>(CU_STREAM_LEGACY);
  const bool own =
      value == reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD) || (value == 0 && (header_.flags & kPerThreadStream) != 0);
  if (legacy || (value == 0 && !own)) {
    worker_.implicit_order().NoteDefaultStream();
    return legacy ? CU_STREAM_LEGACY : nullptr;
  }
  CUstream stream = nullptr;
  if (own) {
    const CUresult result = worker_.thread_streams().Get(header_.thread, worker_.CurrentContext(), &stream);
    if (result != CUDA_SUCCESS) Fail(result);
    worker_.implicit_order().NoteBlockingStream();
  } else {
    stream = Use<CUstream>(id);
  }
  if (stream != nullptr) worker_.busy_streams().Touch(stream);
  return stream;
}

void CallContext::Insert(HandleId id, uint64_t object) {
  if (worker_.objects().Insert(id, object, HandleId(header_.context))) return;
  worker_.End(Status(StatusCode::kProtocolViolation,
                     fmt::format("{} named a new object {:#x} that cannot be", CallName(header_.call), id.value())));
}

void CallContext::Free(HandleId id) {
  if (!id.is_null()) worker_.objects().Remove(id);
}

HandleId CallContext::KnownValue(HandleKind kind, uint64_t object) {
  return worker_.objects().Known(kind, object, HandleId(header_.context));
}

void* CallContext::Scratch(size_t bytes) {
  void* memory = DriverThread::Of(worker_.serial()).Scratch(bytes);
  if (memory == nullptr) Fail(CUDA_ERROR_OUT_OF_MEMORY);
  return memory;
}

void CallContext::Finish(CUresult result) { Answer(worker_, header_, result, {}); }

void CallContext::Malformed() {
  worker_.End(Status(StatusCode::kProtocolViolation, fmt::format("malformed record: call {:#x} ({}), {} bytes", header_.call,
                                                                 CallName(header_.call), header_.size_bytes)));
}

CallContext::Deferred CallContext::Defer() { return Deferred(worker_, header_); }

Encoder& CallContext::BeginReply() {
  Encoder& encoder = DriverThread::Of(worker_.serial()).reply_encoder();
  encoder.Clear();
  return encoder;
}

void CallContext::SendReply(CUresult result) {
  Encoder& encoder = DriverThread::Of(worker_.serial()).reply_encoder();
  if (!encoder.ok()) {
    LogError("the reply to {} is larger than a message can be", CallName(header_.call));
    return Answer(worker_, header_, CUDA_ERROR_OUT_OF_MEMORY, {});
  }
  Answer(worker_, header_, result, encoder.bytes());
}

void CallContext::Deferred::Finish(CUresult result) { Answer(*worker_, header_, result, {}); }

void CallContext::Deferred::Finish(CUresult result, std::span<const std::byte> payload) {
  Answer(*worker_, header_, result, payload);
}

}  // namespace tessera
