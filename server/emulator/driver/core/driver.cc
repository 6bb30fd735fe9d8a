#include <pthread.h>
#include <time.h>

#include <set>

#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/pool.h"

namespace tessera::emulator {
namespace {

uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

}  // namespace

Driver& GetDriver() {
  static Driver* driver = new Driver;  // never destroyed: driver threads outlive main
  return *driver;
}

ThreadState& GetThread() {
  thread_local ThreadState state;
  return state;
}

Driver::Driver() {
  pthread_atfork(nullptr, nullptr, [] { GetDriver().forked_ = true; });
}

CUresult Driver::Initialize() {
  if (forked()) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(init_mutex_);
  if (initialized_) return CUDA_SUCCESS;
  if (!ProcessorSupported()) return CUDA_ERROR_NO_DEVICE;
  const int count = static_cast<int>(GetOptions().devices.size());
  if (count == 0) return CUDA_ERROR_NO_DEVICE;
  // CUDA_VISIBLE_DEVICES names one twice.
  const std::set<int> distinct(GetOptions().devices.begin(), GetOptions().devices.end());
  if (distinct.size() < GetOptions().devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  for (int number = 0; number < count; ++number) {
    auto device = std::make_unique<Device>(number, GetOptions().memory_bytes);
    device->primary_handle = contexts.Mint();
    contexts.Put(device->primary_handle, std::make_shared<Context>(*this, device.get(), 0, true, device->primary_handle));
    device->default_pool = pools.Add(std::make_shared<Pool>(*device, true, 0));
    device->current_pool = device->default_pool;
    devices_.push_back(std::move(device));
  }
  initialized_ = true;
  return CUDA_SUCCESS;
}

Device* Driver::device(int number) {
  return number >= 0 && number < device_count() ? devices_[static_cast<size_t>(number)].get() : nullptr;
}

void Driver::MemoryChanged() {
  for (const ContextPtr& context : contexts.All()) context->memory_map().generation.fetch_add(1);
}

uint64_t Driver::Random() { return Mix(GetOptions().seed + random_.fetch_add(1)); }

void Driver::RandomPause() {
  const uint64_t longest_us = GetOptions().delay_us;
  if (longest_us == 0) return;
  const uint64_t random = Random();
  if (random % 4 != 0) return;  // most operations follow each other at once
  const uint64_t pause_ns = (random >> 8) % (longest_us * 1000 + 1);
  timespec pause{static_cast<time_t>(pause_ns / 1'000'000'000), static_cast<long>(pause_ns % 1'000'000'000)};
  nanosleep(&pause, nullptr);
}

CUresult CheckEntry() {
  if (!GetDriver().initialized() || GetDriver().forked()) return CUDA_ERROR_NOT_INITIALIZED;
  if (GetThread().in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  return CUDA_SUCCESS;
}

CUresult CurrentContext(ContextPtr* context) {
  RETURN_ON_ERROR(CheckEntry());
  const ThreadState& thread = GetThread();
  if (thread.contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = GetDriver().contexts.Find(thread.contexts.back());
  if (*context == nullptr || !(*context)->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return CUDA_SUCCESS;
}

CUresult EnterContext(ContextPtr* context) {
  RETURN_ON_ERROR(CurrentContext(context));
  return (*context)->sticky();
}

CUresult FindStream(const ContextPtr& current, CUstream handle, StreamPtr* stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    *stream = current->legacy();
  } else if (handle == CU_STREAM_PER_THREAD) {
    if (current->green()) return CUDA_ERROR_INVALID_HANDLE;  // natively so
    *stream = current->PerThread();
  } else {
    *stream = GetDriver().streams.Find(handle);
    if (*stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  return CUDA_SUCCESS;
}

CUresult EnterStream(CUstream handle, ContextPtr* context, StreamPtr* stream) {
  RETURN_ON_ERROR(EnterContext(context));
  RETURN_ON_ERROR(FindStream(*context, handle, stream));
  if ((*stream)->context_handle() == (*context)->handle()) return CUDA_SUCCESS;
  // A stream of another context: its work belongs there.
  *context = GetDriver().contexts.Find((*stream)->context_handle());
  if (*context == nullptr || !(*context)->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return (*context)->sticky();
}

}  // namespace tessera::emulator
