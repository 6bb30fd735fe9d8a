// Wants more of the GPU's time than its vGPU's limit: has work that is not seen to end, or that is not what it was taken for.
// Says "begins", and goes on until it is killed.
//
// usage: cheat capture | legacy | fork | destroyed | destroy | kinds | streams | value | stands | learned [spin]
// Its kernels have the emulated device as long as they say. With "spin" they have a GPU so long, by its own clock.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "occupy_kernel.h"
#include "ptx_program.h"

namespace {

constexpr const char* kSpin = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry occupy(.param .u64 duration)
{
  .reg .b64 %rd<5>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [duration];
  mul.lo.u64 %rd1, %rd1, 1000;
  mov.u64 %rd2, %globaltimer;
again:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra again;
  ret;
})";

CUfunction occupy;

// `kind`: launches of different ones are not taken for equal. A GPU runs their blocks, of a warp each, at the same time.
void Launch(CUstream stream, uint64_t duration_us, unsigned kind = 0) {
  void* parameters[] = {&duration_us};
  CHECK_DRIVER(cuLaunchKernel(occupy, 1 + kind % 1'000, 1 + kind / 1'000, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}

CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, flags));
  return stream;
}

void Begin(CUstream stream) { CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)); }

void End(CUstream stream) {
  CUgraph graph;
  CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
  CHECK_DRIVER(cuGraphDestroy(graph));
}

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// A stream that waits for a value that nobody writes.
void StandForEver() {
  CUdeviceptr value;
  CHECK_DRIVER(cuMemAlloc(&value, sizeof(unsigned)));
  CHECK_DRIVER(cuMemsetD32(value, 0, 1));
  const CUstream stands = NewStream();
  CHECK_DRIVER(cuStreamWaitValue32(stands, value, 1, CU_STREAM_WAIT_VALUE_EQ));
  Launch(stands, 1);
}

// What a stream had to do before it captured.
void Capture() {
  const CUstream stream = NewStream();
  for (;;) {
    Launch(stream, 50'000);
    Begin(stream);
    Sleep(60);
    End(stream);
  }
}

// The legacy stream cannot be asked while a stream captures that waits for it.
void Legacy() {
  const CUstream stream = NewStream(CU_STREAM_DEFAULT);
  for (;;) {
    Launch(CU_STREAM_LEGACY, 50'000);
    Begin(stream);
    Sleep(60);
    End(stream);
  }
}

// A stream that joins a capture.
void Fork() {
  const CUstream origin = NewStream(), stream = NewStream();
  CUevent event;
  CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (;;) {
    Launch(stream, 50'000);
    Begin(origin);
    CHECK_DRIVER(cuEventRecord(event, origin));
    CHECK_DRIVER(cuStreamWaitEvent(stream, event, 0));
    Sleep(60);
    CHECK_DRIVER(cuEventRecord(event, stream));
    CHECK_DRIVER(cuStreamWaitEvent(origin, event, 0));
    End(origin);
  }
}

// A stream that is destroyed while it captures.
void Destroyed() {
  for (;;) {
    const CUstream stream = NewStream();
    Launch(stream, 50'000);
    Begin(stream);
    CHECK_DRIVER(cuStreamDestroy(stream));
    Sleep(40);
  }
}

void Destroy() {
  for (;;) {
    const CUstream stream = NewStream();
    Launch(stream, 50'000);
    CHECK_DRIVER(cuStreamDestroy(stream));
  }
}

// The same of ever new kinds.
void Kinds() {
  for (unsigned kind = 0;; ++kind) {
    const CUstream stream = NewStream();
    Launch(stream, 50'000, kind);
    CHECK_DRIVER(cuStreamDestroy(stream));
  }
}

// As many streams as are told apart have work, and others get more.
void Streams() {
  std::vector<CUstream> streams(200);
  for (CUstream& stream : streams) stream = NewStream();
  for (unsigned kind = 0;; ++kind) Launch(streams[kind % streams.size()], 10'000, kind);
}

// The session is never without work, and so waits for itself perhaps.
void Value() {
  StandForEver();
  const CUstream stream = NewStream();
  for (;;) Launch(stream, 20'000);
}

// The same, with ever new kinds.
void Stands() {
  StandForEver();
  const CUstream stream = NewStream();
  for (unsigned kind = 0;; ++kind) Launch(stream, 50'000, kind);
}

// A kind that was always short.
void Learned() {
  const CUstream stream = NewStream();
  for (int batch = 0; batch < 5; ++batch) {
    for (int i = 0; i < 200; ++i) Launch(stream, 10);
    CHECK_DRIVER(cuStreamSynchronize(stream));
  }
  for (;;) Launch(stream, 100'000);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> ways = {
      {"capture", Capture}, {"legacy", Legacy},   {"fork", Fork},   {"destroyed", Destroyed}, {"destroy", Destroy},
      {"kinds", Kinds},     {"streams", Streams}, {"value", Value}, {"stands", Stands},       {"learned", Learned},
  };
  const auto way = argc > 1 ? ways.find(argv[1]) : ways.end();
  const bool spins = argc == 3 && std::strcmp(argv[2], "spin") == 0;
  if (way == ways.end() || argc != (spins ? 3 : 2)) return 2;
  occupy = LoadKernel(spins ? kSpin : kOccupy, "occupy");
  std::puts("begins");
  std::fflush(stdout);
  way->second();
}
