#include "client-stub/process/copier.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "client-stub/process/guest_thread.h"
#include "client-stub/process/past_caches.h"

namespace tessera {
namespace {

// So many may be the machine's whole.
constexpr size_t kFewThreads = 2;

size_t ThreadsOf(size_t cores) {
  return std::max(std::min(cores, Copier::kThreadsOfFewCores), std::min(cores / 2, Copier::kThreadsMax));
}

}  // namespace

Copier::Copier() : Copier(ThreadsOf(std::max(1u, std::thread::hardware_concurrency()))) {}

Copier::Copier(size_t threads)
    : threads_(threads),
      crew_(threads - 1, [](std::function<void()> body) { return StartGuestThread("tessera-copy", std::move(body)); }) {}

void Copier::CopyBeside(void* to, const void* from, size_t bytes, size_t whole, Reader reader) {
  if (threads_ > kFewThreads) return CopyPiece(to, from, bytes, whole, reader);
  if (bytes > 0) std::memcpy(to, from, bytes);  // null is legal for nothing here, not for memcpy
}

void Copier::CopyPiece(void* to, const void* from, size_t bytes, size_t whole, Reader reader) {
  if (whole < kSharedBytesMin || bytes < 2 * kPartBytesMin || threads_ == 1) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  auto* const first = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  // Some for each thread: they are not equally fast.
  constexpr size_t kPartsEach = 4;
  const size_t part_bytes = std::clamp(bytes / (kPartsEach * threads_) & ~size_t{4095}, kPartBytesMin, kPartBytesMax);
  const bool for_device = reader == Reader::kDevice;
  const bool past_caches = threads_ > kFewThreads && (for_device || whole >= kBeyondCachesBytesMin);
  const ReadAhead ahead = for_device ? ReadAhead::kYes : ReadAhead::kNo;
  ForEach((bytes + part_bytes - 1) / part_bytes, [&](size_t part) {
    const size_t offset = part * part_bytes;
    const size_t size = std::min(part_bytes, bytes - offset);
    past_caches ? CopyPastCaches(first + offset, source + offset, size, ahead)
                : static_cast<void>(std::memcpy(first + offset, source + offset, size));
  });
}

void Copier::ForEach(size_t count, const std::function<void(size_t part)>& work) {
  crew_.ForEach(count, [&](size_t, size_t part) { work(part); });
}

}  // namespace tessera
