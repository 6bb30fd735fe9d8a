#include "server/worker/memory/session_memory.h"

#include <iterator>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/channel/channel.h"
#include "server/worker/completion.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/helper_pool.h"
#include "server/worker/object_table.h"
#include "server/worker/reply_writer.h"
#include "server/worker/thread_streams.h"
#include "server/worker/worker.h"

namespace tessera {

SessionMemory::SessionMemory(Worker& worker)
    : worker_(worker),
      device_window_(worker.windows().device),
      charges_(worker),
      heap_(worker.driver(), charges_.ledger()),
      reserved_(worker.driver(), worker.windows(), worker.options().client_in_process),
      host_(worker.channel(), worker.driver()),
      host_mappings_(worker, reserved_),
      deliveries_(worker,
                  [this] {
                    if (mirrors_.working()) mirrors_.Tell();
                  }),
      mirrors_(worker, deliveries_) {
  heap_.SetWindow(device_window_);
  if (!worker.channel().mirrored()) return;
  worker.replies().BeforeSending([this](ReplyKind kind) {
    // A host function may be in one graph with work whose results it must see. Nothing is known yet of that work's use of
    // mirrors.
    if (kind == ReplyKind::kHostFunction || mirrors_.working()) mirrors_.Tell();
    deliveries_.Tell();
  });
}

void SessionMemory::AfterAllWork(std::function<void(bool, CUresult)> action) {
  std::vector<std::function<void()>> postponed;
  {
    MutexLock lock(mutex_);
    postponed.swap(postponed_);
  }
  const auto put_back = [this](std::vector<std::function<void()>>& tasks) {
    MutexLock lock(mutex_);
    for (auto& task : tasks) postponed_.push_back(std::move(task));
  };
  auto task = [this, action, postponed, put_back]() mutable {
    if (AnyStreamCaptures()) {
      put_back(postponed);
      return action(false, CUDA_SUCCESS);
    }
    const CUresult result = WaitForAllWork();
    for (auto& reclaim : postponed) reclaim();
    action(true, result);
  };
  if (worker_.helpers().Run(task)) return;
  put_back(postponed);
  action(false, CUDA_SUCCESS);
}

bool SessionMemory::AllWorkIsDone() {
  if (AnyStreamCaptures()) return false;
  worker_.completion().Settle();
  const DriverTable& driver = worker_.driver();
  for (const BusyStreams::Use& use : worker_.busy_streams().Unfinished()) {
    CUcontext context = nullptr;
    if (driver.cuStreamGetCtx(use.stream, &context) != CUDA_SUCCESS) continue;  // the stream went with its context
    if (driver.cuStreamQuery(use.stream) == CUDA_ERROR_NOT_READY) return false;
  }
  std::vector<HandleId> contexts;
  worker_.objects().ForEach(HandleKind::kContext, [&](HandleId id, uint64_t) { contexts.push_back(id); });
  for (const HandleId context : contexts) {
    if (worker_.SetContext(context) != CUDA_SUCCESS) continue;  // destroyed meanwhile: it does no work
    if (driver.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY) return false;
  }
  return true;
}

void SessionMemory::Postpone(std::function<void()> reclaim) {
  MutexLock lock(mutex_);
  postponed_.push_back(std::move(reclaim));
}

void SessionMemory::ReclaimIfIdle() {
  {
    MutexLock lock(mutex_);
    if (postponed_.empty()) return;
  }
  if (!AllWorkIsDone()) return;
  std::vector<std::function<void()>> postponed;
  {
    MutexLock lock(mutex_);
    postponed.swap(postponed_);
  }
  for (auto& reclaim : postponed) reclaim();
}

CUresult SessionMemory::WaitForAllWork() {
  std::vector<HandleId> contexts;
  worker_.objects().ForEach(HandleKind::kContext, [&](HandleId id, uint64_t) { contexts.push_back(id); });
  CUresult first = CUDA_SUCCESS;
  for (const HandleId context : contexts) {
    if (worker_.SetContext(context) != CUDA_SUCCESS) continue;  // destroyed meanwhile: it does no work
    const CUresult result = worker_.driver().cuCtxSynchronize();
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED) continue;
    if (first == CUDA_SUCCESS) first = result;
  }
  worker_.DrainDeviceOutput();
  return first;
}

bool SessionMemory::AnyStreamCaptures() {
  const DriverTable& driver = worker_.driver();
  // A helper thread may not have had a context yet; the driver would not answer it then.
  std::vector<HandleId> contexts;
  worker_.objects().ForEach(HandleKind::kContext, [&](HandleId id, uint64_t) { contexts.push_back(id); });
  for (const HandleId context : contexts) {
    if (worker_.SetContext(context) == CUDA_SUCCESS) break;
  }
  std::vector<CUstream> streams;
  worker_.objects().ForEach(HandleKind::kStream,
                            [&](HandleId, uint64_t object) { streams.push_back(reinterpret_cast<CUstream>(object)); });
  worker_.objects().ForEach(HandleKind::kContext, [&](HandleId, uint64_t object) {
    for (const auto& [thread, stream] : worker_.thread_streams().OfContext(reinterpret_cast<CUcontext>(object))) {
      streams.push_back(stream);
    }
  });
  for (CUstream stream : streams) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) return true;
  }
  return false;
}

void SessionMemory::NoteDriverMemory(uint64_t address) {
  MutexLock lock(mutex_);
  driver_memory_.insert(address);
}

bool SessionMemory::ForgetDriverMemory(uint64_t address) {
  MutexLock lock(mutex_);
  return driver_memory_.erase(address) != 0;
}

void SessionMemory::NoteGraphMemory(const Range& range) {
  MutexLock lock(mutex_);
  graph_memory_[range.base] = range.bytes;
  charges_.graphs().NoteNode();
}

bool SessionMemory::IsGraphMemory(uint64_t address) {
  MutexLock lock(mutex_);
  return graph_memory_.contains(address);
}

bool SessionMemory::MayCopy(uint64_t address, uint64_t bytes) {
  if (device_window_.contains(address, bytes) || reserved_.Contains(address, bytes)) return true;
  if (host_.Contains(address, bytes) || mirrors_.Contains(address, bytes)) return true;
  {
    MutexLock lock(mutex_);
    const auto after = graph_memory_.upper_bound(address);
    if (after != graph_memory_.begin()) {
      const auto& [base, size] = *std::prev(after);
      if (Range{base, size}.contains(address, bytes)) return true;  // also before the graph's first launch
    }
  }
  // This may be a variable of a module, or memory of a pool. The driver knows where its allocation ends.
  unsigned type = 0;
  const DriverTable& driver = worker_.driver();
  if (driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) return false;
  return type == CU_MEMORYTYPE_DEVICE;
}

bool SessionMemory::MayName(uint64_t address, uint64_t bytes) {
  if (MayCopy(address, bytes)) return true;
  unsigned type = 0;
  return worker_.driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS;
}

bool SessionMemory::IsHost(uint64_t address, uint64_t bytes) {
  return host_.Contains(address, bytes) || mirrors_.Contains(address, bytes) || host_mappings_.Contains(address, bytes);
}

std::optional<Range> SessionMemory::DriverAllocationAt(uint64_t address) {
  const DriverTable& driver = worker_.driver();
  unsigned type = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (heap_.OwnsAddress(address) ||
      driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE || driver.cuMemGetAddressRange_v2(&base, &bytes, address) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return Range{base, bytes};
}

void SessionMemory::EndContext(uint64_t context) {
  host_.EndContext(context);
  deliveries_.EndContext(worker_.CurrentContext());
  mirrors_.EndContext(context);
  heap_.FreeContext(context);
  host_mappings_.EndContext(HandleId(context));
}

}  // namespace tessera
