#include "server/emulator/driver/shared_event.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string>

#include "server/emulator/driver/state.h"

namespace tessera::emulator {

struct SharedEvent::State {
  uint64_t mark = 0;  // random: tells the event from whatever has its place after it ended
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> done{0};
  std::atomic<int32_t> recorder{0};  // process of the newest record
};

namespace {

// How to find an event: the process that made it keeps its memory open under a number.
struct Place {
  uint64_t mark = 0;
  int32_t pid = 0;
  int32_t fd = -1;
};
static_assert(sizeof(Place) <= sizeof(CUipcEventHandle));

// How often a record of another process is looked at.
constexpr timespec kPollPause{0, 200'000};

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::Create() {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  UniqueFd fd(memfd_create("tessera-emulated-event", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), sizeof(State)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  State* state = new (memory) State;
  if (getrandom(&state->mark, sizeof(state->mark), 0) != sizeof(state->mark)) state->mark = 0;
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(fd), state));
}

std::shared_ptr<SharedEvent> SharedEvent::Open(const CUipcEventHandle& handle) {
  Place place;
  memcpy(&place, handle.reserved, sizeof(place));
  if (place.mark == 0 || place.pid <= 0 || place.fd < 0) return nullptr;
  const std::string path = "/proc/" + std::to_string(place.pid) + "/fd/" + std::to_string(place.fd);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid() || lseek(fd.get(), 0, SEEK_END) != static_cast<off_t>(sizeof(State))) return nullptr;
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* state = static_cast<State*>(memory);
  if (state->mark != place.mark) {
    munmap(memory, sizeof(State));
    return nullptr;
  }
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(fd), state));
}

SharedEvent::~SharedEvent() { munmap(state_, sizeof(State)); }

void SharedEvent::Tell(CUipcEventHandle* handle) const {
  const Place place{state_->mark, getpid(), fd_.get()};
  memset(handle->reserved, 0, sizeof(handle->reserved));
  memcpy(handle->reserved, &place, sizeof(place));
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
  event_->Wait(number_, context.cancel_flag());
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
