#include "client-stub/process/address_windows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "client-stub/process/thread_sanitizer.h"
#include "protocol/base/log.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17
#endif

namespace tessera {
namespace {

// True when the range was free and is reserved now.
bool Reserve(uint64_t base, uint64_t bytes) {
  void* const wanted = reinterpret_cast<void*>(base);
  void* const got = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got != wanted) {  // a kernel that does not know MAP_FIXED_NOREPLACE
    munmap(got, bytes);
    return false;
  }
  return true;
}

void Release(uint64_t base, uint64_t bytes) { munmap(reinterpret_cast<void*>(base), bytes); }

bool ReserveRow(const WindowPair& row) {
  if (!Reserve(row.device.base, row.device.bytes)) return false;
  if (Reserve(row.host.base, row.host.bytes)) return true;
  Release(row.device.base, row.device.bytes);
  return false;
}

}  // namespace

uint32_t AddressWindows::Offer() {
  MutexLock lock(mutex_);
  if (reserved_) return mask_;
  reserved_ = true;
  for (int row = 0; row < kWindowRows && !kThreadSanitizer; ++row) {
    if (row != kSanitizedRow && ReserveRow(kWindowTable[row])) mask_ |= 1u << row;
  }
  // Where a driver may want to have its own things: for programs that leave nothing else.
  if (mask_ == 0 && ReserveRow(kWindowTable[kSanitizedRow])) mask_ = 1u << kSanitizedRow;
  return mask_;
}

Status AddressWindows::Keep(int row) {
  MutexLock lock(mutex_);
  if (row_ == row) return Status::Ok();
  if (row < 0 || row >= kWindowRows || (mask_ >> row & 1) == 0 || row_ >= 0) {
    return Status(StatusCode::kProtocolViolation, "server chose address windows that were not offered");
  }
  for (int other = 0; other < kWindowRows; ++other) {
    if (other == row || (mask_ >> other & 1) == 0) continue;
    Release(kWindowTable[other].device.base, kWindowTable[other].device.bytes);
    Release(kWindowTable[other].host.base, kWindowTable[other].host.bytes);
  }
  mask_ = 1u << row;
  row_ = row;
  return Status::Ok();
}

int AddressWindows::row() {
  MutexLock lock(mutex_);
  return row_;
}

bool AddressWindows::ReserveDriverRange(uint64_t address, uint64_t bytes, uint32_t session_index) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0 || address > UINT64_MAX - bytes - page) return false;
  const uint64_t base = address & ~(page - 1);
  const uint64_t end = (address + bytes + page - 1) & ~(page - 1);
  MutexLock lock(mutex_);
  for (int row = 0; row < kWindowRows; ++row) {
    if ((mask_ >> row & 1) == 0 || !kWindowTable[row].device.contains(base, end - base)) continue;
    return SessionWindows(row, static_cast<int>(session_index)).device.contains(base, end - base);
  }
  // The parts that are not reserved yet: all of them must be free.
  std::vector<Range> missing;
  uint64_t at = base;
  auto next = driver_ranges_.upper_bound(base);
  if (next != driver_ranges_.begin() && std::prev(next)->second.end > base) --next;
  for (; next != driver_ranges_.end() && next->first < end; ++next) {
    if (next->second.session_index != session_index) {
      LogInfo("two servers have put device memory at {:#x}: what the second one has there cannot be used",
              std::max(base, next->first));
      return false;
    }
    if (next->first > at) missing.push_back(Range{at, next->first - at});
    at = std::max(at, next->second.end);
  }
  if (at < end) missing.push_back(Range{at, end - at});
  for (size_t i = 0; i < missing.size(); ++i) {
    if (Reserve(missing[i].base, missing[i].bytes)) continue;
    LogWarning("driver put device memory at {:#x}, where this process maps something already", missing[i].base);
    for (size_t done = 0; done < i; ++done) Release(missing[done].base, missing[done].bytes);
    return false;
  }
  if (base < driver_ranges_base_.load(std::memory_order_relaxed)) driver_ranges_base_.store(base, std::memory_order_relaxed);
  if (end > driver_ranges_end_.load(std::memory_order_relaxed)) driver_ranges_end_.store(end, std::memory_order_relaxed);
  for (const Range& part : missing) {
    uint64_t joined_base = part.base;
    uint64_t joined_end = part.end();
    if (const auto after_it = driver_ranges_.upper_bound(joined_base); after_it != driver_ranges_.begin()) {
      const auto before = std::prev(after_it);
      if (before->second.end == joined_base && before->second.session_index == session_index) {
        joined_base = before->first;
        driver_ranges_.erase(before);
      }
    }
    if (const auto after = driver_ranges_.find(joined_end);
        after != driver_ranges_.end() && after->second.session_index == session_index) {
      joined_end = after->second.end;
      driver_ranges_.erase(after);
    }
    driver_ranges_[joined_base] = {joined_end, session_index};
  }
  return true;
}

bool AddressWindows::IsDriverRange(uint64_t address) {
  if (address < driver_ranges_base_.load(std::memory_order_relaxed) ||
      address >= driver_ranges_end_.load(std::memory_order_relaxed)) {
    return false;
  }
  MutexLock lock(mutex_);
  const auto after = driver_ranges_.upper_bound(address);
  return after != driver_ranges_.begin() && std::prev(after)->second.end > address;
}

}  // namespace tessera
