#include "server/emulator/driver/core/shared_event.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {

struct SharedEvent::State {
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> done{0};
  std::atomic<int32_t> recorder{0};  // process of the newest record
};

namespace {

// How often a record of another process is looked at.
constexpr timespec kPollPause{0, 200'000};

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::Create() {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  std::shared_ptr<NamedMemory> file = NamedMemory::Create(sizeof(State));
  if (file == nullptr) return nullptr;
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return nullptr;
  State* state = new (memory) State;
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(file), state));
}

std::shared_ptr<SharedEvent> SharedEvent::Open(const CUipcEventHandle& handle) {
  uint64_t number = 0;
  memcpy(&number, handle.reserved, sizeof(number));
  std::shared_ptr<NamedMemory> file = number != 0 ? NamedMemory::Open(number, sizeof(State)) : nullptr;
  if (file == nullptr) return nullptr;
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(file), static_cast<State*>(memory)));
}

SharedEvent::~SharedEvent() { munmap(state_, sizeof(State)); }

void SharedEvent::Tell(CUipcEventHandle* handle) const {
  const uint64_t number = memory_->number();
  memset(handle->reserved, 0, sizeof(handle->reserved));
  memcpy(handle->reserved, &number, sizeof(number));
}

uint64_t SharedEvent::BeginRecord() {
  state_->recorder = getpid();
  return state_->begun.fetch_add(1) + 1;
}

void SharedEvent::EndRecord(uint64_t number) {
  uint64_t done = state_->done.load();
  while (done < number && !state_->done.compare_exchange_weak(done, number)) {
  }
}

uint64_t SharedEvent::newest() const { return state_->begun.load(); }

bool SharedEvent::Done(uint64_t number) const {
  if (state_->done.load() >= number) return true;
  const int32_t recorder = state_->recorder;
  return recorder != getpid() && kill(recorder, 0) != 0 && errno == ESRCH;
}

void SharedEvent::Wait(uint64_t number, const std::atomic<bool>* cancel) const {
  while (!Done(number) && (cancel == nullptr || !cancel->load())) nanosleep(&kPollPause, nullptr);
}

CUresult SharedWaitCommand::Execute(Context& context) {
  LeaveDevice();
  event_->Wait(number_, context.cancel_flag());
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
