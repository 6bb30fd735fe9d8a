#include "server/worker/memory/host_mirrors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/memory/deliveries.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
// Changes in one notice, at most: the reader takes it at once.
constexpr size_t kMessageBytesMax = size_t{64} << 10;

}  // namespace

HostMirrors::HostMirrors(Worker& worker, Deliveries& deliveries)
    : worker_(worker), deliveries_(deliveries), watch_(worker, [this](bool lone) { SendChanges(lone); }) {
  if (!worker.channel().mirrored()) return;
  worker.answers().OnHostChanges([this](std::span<const std::byte> changes) { return changes_.Apply(changes); });
}

CUresult HostMirrors::Open(uint64_t context, const Range& range, uint32_t generation) {
  const Range& window = worker_.windows().host;
  if (range.bytes == 0 || range.base % kPageBytes != 0 || range.bytes % kPageBytes != 0 ||
      !window.contains(range.base, range.bytes) ||
      worker_.channel().segments().Overlaps(range.base, range.bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MutexLock lock(mutex_);
  auto old = mirrors_.upper_bound(range.base);
  if (old != mirrors_.begin() && std::prev(old)->second.range.contains(range.base)) --old;
  while (old != mirrors_.end() && old->first < range.end()) old = Drop(old);
  if (mirrors_.size() >= kMirrorsMax || range.bytes > kBytesMax - bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
  Mirror mirror{range, context, {}};
  if (!worker_.options().client_in_process) {
    Result<UniqueFd> file = CreateSegmentFile("tessera-mirror", range.bytes);
    if (!file.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
    Result<Mapping> pages = Mapping::Map(file->get(), range.bytes, 0, Placement::OverReservation(range.base));
    if (!pages.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
    mirror.pages = std::move(*pages);
  }
  if (const CUresult result = Register(range); result != CUDA_SUCCESS) return result;
  if (mirror.pages.data() != nullptr && !changes_.Add(range, mirror.pages.data(), generation)) {
    worker_.driver().cuMemHostUnregister(mirror.pages.data());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  bytes_ += range.bytes;
  mirrors_.emplace(range.base, std::move(mirror));
  return CUDA_SUCCESS;
}

CUresult HostMirrors::Register(const Range& range) {
  const DriverTable& driver = worker_.driver();
  auto* const memory = reinterpret_cast<void*>(range.base);
  CUresult result = driver.cuMemHostRegister_v2(memory, range.bytes, kRegisterFlags);
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

HostMirrors::Mirrors::iterator HostMirrors::Drop(Mirrors::iterator mirror) {
  changes_.Remove(mirror->first);
  const CUresult result = worker_.driver().cuMemHostUnregister(reinterpret_cast<void*>(mirror->first));
  if (result != CUDA_SUCCESS) LogDebug("a mirror was not unregistered: result {}", int(result));
  bytes_ -= mirror->second.range.bytes;
  return mirrors_.erase(mirror);
}

CUresult HostMirrors::Close(uint64_t base) {
  MutexLock lock(mutex_);
  const auto found = mirrors_.find(base);
  if (found == mirrors_.end()) return CUDA_ERROR_INVALID_VALUE;
  Drop(found);
  return CUDA_SUCCESS;
}

void HostMirrors::AwaitChanges(uint64_t messages) { worker_.answers().AwaitHostChanges(messages); }

void HostMirrors::Used(CallContext& call, HandleId id, CUstream stream) { watch_.Used(call, id, stream); }

void HostMirrors::EndContext(uint64_t context) {
  watch_.EndContext(worker_.CurrentContext());
  MutexLock lock(mutex_);
  for (auto mirror = mirrors_.begin(); mirror != mirrors_.end();) {
    mirror = mirror->second.context == context ? Drop(mirror) : std::next(mirror);
  }
}

bool HostMirrors::Contains(uint64_t address, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto next = mirrors_.upper_bound(address);
  return next != mirrors_.begin() && std::prev(next)->second.range.contains(address, bytes);
}

void HostMirrors::SendChanges(bool lone) {
  if (!changes_.any()) return;
  const auto send = [this](std::span<const std::byte> changes) {
    // The changes have been looked at: copies that were done before are seen to be done now.
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
