#include "server/worker/memory/worker_mirrors.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/memory/host_segments.h"
#include "server/worker/memory/worker_deliveries.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// The most bytes of changes in one notice, since the reader takes a notice at once.
constexpr size_t kMessageBytesMax = size_t{64} << 10;

}  // namespace

WorkerMirrors::WorkerMirrors(Worker& worker, WorkerDeliveries& deliveries)
    : worker_(worker), deliveries_(deliveries), watch_(worker, [this](bool lone) { SendChanges(lone); }) {
  if (!worker.channel().mirrored()) return;
  worker.answers().OnHostChanges([this](std::span<const std::byte> changes) { return changes_.Apply(changes); });
}

CUresult WorkerMirrors::Open(uint64_t context, const Range& range, uint32_t generation) {
  const Range& window = worker_.windows().host;
  if (range.bytes == 0 || range.base % kPageBytes != 0 || range.bytes % kPageBytes != 0 ||
      !window.contains(range.base, range.bytes) || worker_.channel().segments().Overlaps(range.base, range.bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CloseAll([&](const Mirror& mirror) { return mirror.range.base < range.end() && range.base < mirror.range.end(); });
  if (const CUresult result = Claim(context, range); result != CUDA_SUCCESS) return result;
  Mapping pages;
  CUresult result = MakePages(range, &pages);
  if (result == CUDA_SUCCESS) result = Register(range);
  if (result == CUDA_SUCCESS && pages.data() != nullptr && !changes_.Add(range, pages.data(), generation)) {
    worker_.driver().cuMemHostUnregister(pages.data());
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    pages.Unmap();
    Forget(range.base);
    return result;
  }
  MutexLock lock(mutex_);
  Mirror& mirror = mirrors_.at(range.base);  // nobody else touches it while it is not open
  mirror.pages = std::move(pages);
  mirror.open = true;
  return CUDA_SUCCESS;
}

CUresult WorkerMirrors::Claim(uint64_t context, const Range& range) {
  MutexLock lock(mutex_);
  const auto next = mirrors_.lower_bound(range.base);
  if (next != mirrors_.end() && next->first < range.end()) return CUDA_ERROR_INVALID_VALUE;
  if (next != mirrors_.begin() && std::prev(next)->second.range.contains(range.base)) return CUDA_ERROR_INVALID_VALUE;
  if (mirrors_.size() >= kMirrorsMax || range.bytes > kBytesMax - bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
  mirrors_.emplace(range.base, Mirror{range, context, false, {}});
  bytes_ += range.bytes;
  return CUDA_SUCCESS;
}

CUresult WorkerMirrors::MakePages(const Range& range, Mapping* pages) {
  if (worker_.options().client_in_process) return CUDA_SUCCESS;
  Result<UniqueFd> file = CreateSegmentFile("tessera-mirror", range.bytes);
  if (!file.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  Result<Mapping> made = Mapping::Map(file->get(), range.bytes, 0, MapPlacement::OverReservation(range.base));
  if (!made.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  *pages = std::move(*made);
  return CUDA_SUCCESS;
}

CUresult WorkerMirrors::Register(const Range& range) {
  const DriverTable& driver = worker_.driver();
  auto* const memory = reinterpret_cast<void*>(range.base);
  CUresult result = driver.cuMemHostRegister_v2(memory, range.bytes, kHostRegisterFlags);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr device_pointer = 0;
  result = driver.cuMemHostGetDevicePointer_v2(&device_pointer, memory, 0);
  if (result == CUDA_SUCCESS && device_pointer != range.base) {
    LogError("driver maps host memory at {:#x} to the device address {:#x}: mirrors need equal addresses", range.base,
             uint64_t{device_pointer});
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS) driver.cuMemHostUnregister(memory);
  return result;
}

CUresult WorkerMirrors::CloseAll(const std::function<bool(const Mirror&)>& which) {
  std::vector<uint64_t> bases;
  {
    MutexLock lock(mutex_);
    for (auto& [base, mirror] : mirrors_) {
      if (!mirror.open || !which(mirror)) continue;
      mirror.open = false;
      bases.push_back(base);
    }
  }
  for (const uint64_t base : bases) {
    changes_.Remove(base);
    const CUresult result = worker_.driver().cuMemHostUnregister(reinterpret_cast<void*>(base));
    if (result != CUDA_SUCCESS) LogDebug("a mirror was not unregistered: result {}", int(result));
    Forget(base);
  }
  return bases.empty() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void WorkerMirrors::Forget(uint64_t base) {
  Mapping pages;
  {
    MutexLock lock(mutex_);
    pages = std::move(mirrors_.at(base).pages);
  }
  pages.Unmap();  // before another thread may map there
  MutexLock lock(mutex_);
  bytes_ -= mirrors_.at(base).range.bytes;
  mirrors_.erase(base);
}

CUresult WorkerMirrors::Close(uint64_t base) {
  return CloseAll([base](const Mirror& mirror) { return mirror.range.base == base; });
}

void WorkerMirrors::AwaitChanges(uint64_t messages) { worker_.answers().AwaitHostChanges(messages); }

void WorkerMirrors::Used(CallContext& call, HandleId id, CUstream stream) { watch_.Used(call, id, stream); }

void WorkerMirrors::EndContext(uint64_t context) {
  watch_.EndContext(worker_.CurrentContext());
  CloseAll([context](const Mirror& mirror) { return mirror.context == context; });
}

bool WorkerMirrors::Contains(uint64_t address, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto next = mirrors_.upper_bound(address);
  return next != mirrors_.begin() && std::prev(next)->second.open && std::prev(next)->second.range.contains(address, bytes);
}

void WorkerMirrors::SendChanges(bool lone) {
  if (!changes_.any()) return;
  const auto send = [this](std::span<const std::byte> changes) {
    // The changes have been read by now. So this sees every copy as done that was done before them.
    deliveries_.Tell();
    return worker_.SendNotice(NoticeKind::kHostChanges, 0, CUDA_SUCCESS, changes);
  };
  const size_t room = worker_.channel().replies_out().record_bytes_max() - sizeof(ReplyHeader);
  if (lone) {
    changes_.SendLoneChange(send);
  } else {
    changes_.SendChanges(std::min(kMessageBytesMax, room), send);
  }
}

}  // namespace tessera
