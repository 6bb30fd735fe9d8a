#include "tests/bench/shadow_measures.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "protocol/base/clock.h"
#include "tests/support/sizes.h"
#include "tests/system/programs/check.h"

namespace tessera {
namespace {

constexpr size_t kRingBytes = 64 * kMiB;

char* RingMemory(bool pinned) {
  char* memory = nullptr;
  if (pinned) {
    CHECK_DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&memory), kRingBytes));
    return memory;
  }
  const int fd = memfd_create("shadow_bench", 0);
  if (fd < 0 || ftruncate(fd, kRingBytes) != 0) std::perror("shadow_bench: a memory file"), std::exit(1);
  memory = static_cast<char*>(mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0));
  if (memory == MAP_FAILED) std::perror("shadow_bench: a memory file"), std::exit(1);
  CHECK_DRIVER(cuMemHostRegister(memory, kRingBytes, 0));
  return memory;
}

}  // namespace

ShadowMeasures::ShadowMeasures(size_t bytes, bool pinned_ring, double seconds)
    : seconds_(seconds), bytes_(std::max(bytes, kRingBytes)) {
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context_, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context_));
  CHECK_DRIVER(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  for (CUevent& event : events_) CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK_DRIVER(cuMemAlloc(&device_, bytes_));
  CHECK_DRIVER(cuMemAllocHost(reinterpret_cast<void**>(&pinned_), kRingBytes));
  ring_ = RingMemory(pinned_ring);
  program_ = new char[bytes_];
  uint64_t state = 1;  // pages that nobody wrote are copied faster
  for (size_t at = 0; at < bytes_; at += sizeof(state)) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(program_ + at, &state, sizeof(state));
  }
  std::memcpy(pinned_, program_, kRingBytes);
  std::memcpy(ring_, program_, kRingBytes);
  CHECK_DRIVER(cuMemHostRegister(program_, bytes_, 0));
}

double ShadowMeasures::Dma(bool to_device, size_t bytes) {
  return Rate(bytes, [&] {
    Send(to_device, program_, device_, bytes);
    CHECK_DRIVER(cuStreamSynchronize(stream_));
  });
}

double ShadowMeasures::Copies(bool to_device, Copier& copier, const CopyWay& way) {
  constexpr size_t kPiece = 8 * kMiB;
  size_t at = 0;
  return Rate(kPiece, [&] {
    Move(to_device, copier, way, ring_ + at % kRingBytes, program_ + at % (bytes_ / kPiece * kPiece), kPiece, bytes_);
    at += kPiece;
  });
}

double ShadowMeasures::Beside(bool to_device, Copier& copier, const CopyWay& way, double* dma) {
  constexpr int kInFlight = 4;
  std::atomic<bool> over{false};
  std::thread other([&] {
    CHECK_DRIVER(cuCtxSetCurrent(context_));
    const uint64_t begin_ns = MonotonicNs();
    size_t sent = 0;
    do {
      for (int i = 0; i < kInFlight; ++i) Send(to_device, pinned_, device_, kRingBytes);
      CHECK_DRIVER(cuStreamSynchronize(stream_));
      sent += kInFlight * kRingBytes;
    } while (!over.load());
    *dma = static_cast<double>(sent) / static_cast<double>(MonotonicNs() - begin_ns);
  });
  const double rate = Copies(to_device, copier, way);
  over = true;
  other.join();
  return rate;
}

double ShadowMeasures::Ring(bool to_device, Copier& copier, const CopyWay& way, size_t bytes) {
  return Rate(bytes, [&] { to_device ? Upload(copier, way, bytes) : Download(copier, way, bytes); });
}

template <typename Call>
double ShadowMeasures::Rate(size_t bytes, const Call& call) {
  constexpr size_t kCallsMin = 5;
  std::vector<uint64_t> times_ns;
  for (int i = 0; i < 3; ++i) call();
  const uint64_t end_ns = MonotonicNs() + static_cast<uint64_t>(seconds_ * 1e9);
  for (uint64_t begin_ns = MonotonicNs(); begin_ns < end_ns || times_ns.size() < kCallsMin;) {
    call();
    const uint64_t now_ns = MonotonicNs();
    times_ns.push_back(now_ns - begin_ns);
    begin_ns = now_ns;
  }
  std::sort(times_ns.begin(), times_ns.end());
  return static_cast<double>(bytes) / static_cast<double>(times_ns[times_ns.size() / 2]);
}

void ShadowMeasures::Send(bool to_device, char* host, CUdeviceptr device, size_t bytes) {
  CHECK_DRIVER(to_device ? cuMemcpyHtoDAsync(device, host, bytes, stream_) : cuMemcpyDtoHAsync(host, device, bytes, stream_));
}

void ShadowMeasures::Move(bool to_device, Copier& copier, const CopyWay& way, char* place, char* program, size_t bytes,
                          size_t whole) {
  char* const to = to_device ? place : program;
  const char* const from = to_device ? program : place;
  if (way.copy == nullptr) {
    return copier.CopyPiece(to, from, bytes, whole, to_device ? Copier::Reader::kDevice : Copier::Reader::kProgram);
  }
  const size_t part = std::clamp(bytes / 32 & ~size_t{4095}, Copier::kPartBytesMin, Copier::kPartBytesMax);
  copier.ForEach((bytes + part - 1) / part,
                 [&](size_t i) { way.copy(to + i * part, from + i * part, std::min(part, bytes - i * part)); });
}

// About as the product's (NextPieceBytes): what nothing overlaps with is short.
ShadowMeasures::Plan::Plan(size_t bytes, bool to_device) {
  const size_t largest = std::clamp(bytes / 16, 2 * kMiB, kRingBytes / 4);
  for (size_t done = 0; done < bytes; done += pieces.back()) {
    pieces.push_back(std::min({std::max(3 * done, kMiB / 4), largest, bytes - done}));
  }
  if (!to_device) std::reverse(pieces.begin(), pieces.end());
  place_bytes = *std::max_element(pieces.begin(), pieces.end());
  places = std::min(kPlaces, kRingBytes / place_bytes);
}

void ShadowMeasures::AwaitPlace(size_t place) {
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = cuEventQuery(events_[place]);
  CHECK_DRIVER(result);
}

void ShadowMeasures::Upload(Copier& copier, const CopyWay& way, size_t bytes) {
  const Plan plan(bytes, true);
  size_t done = 0;
  for (size_t i = 0; i < plan.pieces.size(); done += plan.pieces[i], ++i) {
    const size_t place = i % plan.places;
    if (i >= plan.places) AwaitPlace(place);
    char* const at = ring_ + place * plan.place_bytes;
    Move(true, copier, way, at, program_ + done, plan.pieces[i], bytes);
    Send(true, at, device_ + done, plan.pieces[i]);
    CHECK_DRIVER(cuEventRecord(events_[place], stream_));
  }
  CHECK_DRIVER(cuStreamSynchronize(stream_));
}

void ShadowMeasures::Download(Copier& copier, const CopyWay& way, size_t bytes) {
  const Plan plan(bytes, false);
  size_t done = 0, sent = 0, sent_bytes = 0;
  for (size_t i = 0; i < plan.pieces.size(); done += plan.pieces[i], ++i) {
    for (; sent < std::min(plan.pieces.size(), i + plan.places); sent_bytes += plan.pieces[sent], ++sent) {
      Send(false, ring_ + sent % plan.places * plan.place_bytes, device_ + sent_bytes, plan.pieces[sent]);
      CHECK_DRIVER(cuEventRecord(events_[sent % plan.places], stream_));
    }
    AwaitPlace(i % plan.places);
    Move(false, copier, way, ring_ + i % plan.places * plan.place_bytes, program_ + done, plan.pieces[i], bytes);
  }
}

}  // namespace tessera
