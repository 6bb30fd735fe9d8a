// Work that waits for work behind it, for another process or for the program: it ends, with right results, whatever the gate of
// GPU time does meanwhile (docs/share-a-gpu.md). Each case is a word. A line tells of each one that it is done, and how many ms
// it took.
//
// usage: gate_waits CASE... [--launches N, 30] [--kernel-us N, 3000] [--rounds N, 20] [--seconds N, 1] [--peer-vgpu NAME]
//   value-END: --launches kernels of --kernel-us behind a stream's wait for a value
//   spin-END: the same behind a kernel that spins. END is what ends the wait: a record that stands behind them, a kernel or a
//     copy of another stream, or host: the program, once all launches have returned
//   events, flags, values, event, long: with a second process, in --peer-vgpu; as a rule in its own vGPU
//   capture: prints a line and waits for one, twice: within a capture, and before its graph is launched
//   functions: 10,000 launches behind a host function
//   aside: what a host function asks, while launches wait
//   threads: what other threads call, while launches wait
//   idle: a session that does nothing until its input ends
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pass_descriptor.h"
#include "ptx_program.h"

namespace {

// `step` counts itself only if the flag stands: what has overtaken its wait is missing in the sum.
constexpr const char* kKernels = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry step(.param .u64 flag, .param .u64 sum, .param .u64 duration, .param .u64 spin_ns)
.pragma "tessera_us duration";
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd0, [flag];
  ld.param.u64 %rd1, [sum];
  ld.param.u64 %rd2, [spin_ns];
  ld.volatile.global.u32 %r0, [%rd0];
  setp.eq.u32 %p, %r0, 0;
  @%p bra spin;
  ld.volatile.global.u32 %r1, [%rd1];
  add.u32 %r1, %r1, 1;
  st.volatile.global.u32 [%rd1], %r1;
spin:
  setp.eq.u64 %p, %rd2, 0;
  @%p bra done;
  mov.u64 %rd3, %globaltimer;
again:
  mov.u64 %rd4, %globaltimer;
  sub.u64 %rd4, %rd4, %rd3;
  setp.lt.u64 %p, %rd4, %rd2;
  @%p bra again;
done:
  ret;
}
.visible .entry await(.param .u64 flag, .param .u32 value)
{
  .reg .pred %p;
  .reg .b32 %r<2>;
  .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
  ld.param.u32 %r0, [value];
again:
  ld.volatile.global.u32 %r1, [%rd];
  setp.lt.u32 %p, %r1, %r0;
  @%p bra again;
  ret;
}
.visible .entry set(.param .u64 flag, .param .u32 value)
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [flag];
  ld.param.u32 %r, [value];
  membar.sys;
  st.volatile.global.u32 [%rd], %r;
  ret;
}
)";

using Clock = std::chrono::steady_clock;

struct Options {
  uint32_t launches = 30;
  uint64_t kernel_us = 3000;
  uint32_t rounds = 20;
  double seconds = 1;
  std::string peer_vgpu;
} options;

struct Kernels {
  CUfunction step, await, set;
  bool emulated = false;
} kernels;

void LoadKernels() {
  kernels.step = LoadKernel(kKernels, "step");
  CUmodule module;
  CHECK_DRIVER(cuFuncGetModule(&module, kernels.step));
  CHECK_DRIVER(cuModuleGetFunction(&kernels.await, module, "await"));
  CHECK_DRIVER(cuModuleGetFunction(&kernels.set, module, "set"));
  char name[100] = {};
  CHECK_DRIVER(cuDeviceGetName(name, sizeof(name), 0));
  kernels.emulated = std::strstr(name, "emulated") != nullptr;
}

void Launch(CUfunction function, CUstream stream, void** parameters) {
  CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}
void Step(CUstream stream, CUdeviceptr flag, CUdeviceptr sum, uint64_t duration_us) {
  uint64_t spin_ns = kernels.emulated ? 0 : duration_us * 1000;  // a GPU does not know the pragma
  void* parameters[] = {&flag, &sum, &duration_us, &spin_ns};
  Launch(kernels.step, stream, parameters);
}
void Step(CUstream stream, CUdeviceptr flag, CUdeviceptr sum) { Step(stream, flag, sum, options.kernel_us); }
void AwaitFlag(CUstream stream, CUdeviceptr flag, uint32_t value) {
  void* parameters[] = {&flag, &value};
  Launch(kernels.await, stream, parameters);
}
void SetFlag(CUstream stream, CUdeviceptr flag, uint32_t value) {
  void* parameters[] = {&flag, &value};
  Launch(kernels.set, stream, parameters);
}

CUstream NewStream() {
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

// Numbers in device memory, zeros at first. Each has a place of its own.
struct Words {
  CUdeviceptr base = 0;
  Words() {
    CHECK_DRIVER(cuMemAlloc(&base, 4096));
    CHECK_DRIVER(cuMemsetD32(base, 0, 1024));
    CHECK_DRIVER(cuCtxSynchronize());
  }
  ~Words() { CHECK_DRIVER(cuMemFree(base)); }
  CUdeviceptr at(int i) const { return base + static_cast<CUdeviceptr>(i) * 64; }
  uint32_t Read(int i) const {
    uint32_t value = 0;
    CHECK_DRIVER(cuMemcpyDtoH(&value, at(i), sizeof(value)));
    return value;
  }
  void Write(int i, uint32_t value) const {
    CHECK_DRIVER(cuMemsetD32(at(i), value, 1));
    CHECK_DRIVER(cuCtxSynchronize());
  }
};
enum Place { kFlag, kSum, kOther };

// Everything is on the device before something waits there: a driver that loads late would wait for it.
void UseAll() {
  const Words words;
  SetFlag(nullptr, words.at(kFlag), 1);
  AwaitFlag(nullptr, words.at(kFlag), 1);
  Step(nullptr, words.at(kFlag), words.at(kSum), 0);
  CHECK_DRIVER(cuCtxSynchronize());
  EXPECT_EQ(words.Read(kSum), 1u);
}

// How long a step takes is known afterwards. Its sum is one of nobody's.
void Learn(CUstream stream) {
  const Words words;
  words.Write(kFlag, 1);
  for (int i = 0; i < 3; ++i) {
    Step(stream, words.at(kFlag), words.at(kSum));
    CHECK_DRIVER(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(words.Read(kSum), 3u);
}

// A stream that waits, `--launches` steps behind that, and what lets them go on.
void Behind(bool spins, const std::string& release) {
  const CUstream stream = NewStream(), other = NewStream();
  const Words words;
  Learn(stream);
  uint32_t* host = nullptr;
  CUdeviceptr flag = words.at(kFlag);
  CHECK_DRIVER(cuMemHostAlloc(reinterpret_cast<void**>(&host), sizeof(*host), CU_MEMHOSTALLOC_DEVICEMAP));
  *host = release == "host" ? 0 : 1;
  if (release == "host") CHECK_DRIVER(cuMemHostGetDevicePointer(&flag, host, 0));
  if (spins) {
    AwaitFlag(stream, flag, 1);
  } else {
    CHECK_DRIVER(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  for (uint32_t i = 0; i < options.launches; ++i) Step(stream, flag, words.at(kSum));
  if (release == "record") CHECK_DRIVER(cuStreamWriteValue32(other, flag, 1, 0));
  if (release == "kernel") SetFlag(other, flag, 1);
  if (release == "copy") {
    CHECK_DRIVER(cuMemcpyHtoDAsync(words.at(kOther), host, sizeof(*host), other));
    CHECK_DRIVER(cuMemcpyDtoDAsync(flag, words.at(kOther), sizeof(*host), other));
  }
  if (release == "host") __atomic_store_n(host, 1, __ATOMIC_RELEASE);
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(words.Read(kSum), options.launches);
  CHECK_DRIVER(cuMemFreeHost(host));
  CHECK_DRIVER(cuStreamDestroy(stream));
  CHECK_DRIVER(cuStreamDestroy(other));
}

// What two processes share. The first one's memory; an event of each.
class Pair {
 public:
  Pair(int socket, bool first) : socket_(socket), first_(first), stream(NewStream()) {
    CHECK_DRIVER(cuEventCreate(&own, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    Message mine{}, theirs{};
    CHECK_DRIVER(cuIpcGetEventHandle(&mine.event, own));
    if (first) {
      words_.emplace_back();
      base = words_[0].base;
      CHECK_DRIVER(cuIpcGetMemHandle(&mine.memory, base));
    }
    SendFd(socket, &mine, sizeof(mine), -1);
    ReceiveFd(socket, &theirs, sizeof(theirs));
    CHECK_DRIVER(cuIpcOpenEventHandle(&others, theirs.event));
    if (!first) CHECK_DRIVER(cuIpcOpenMemHandle(&base, theirs.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    Learn(stream);
    Tell();
    Hear();
  }
  ~Pair() {
    CHECK_DRIVER(cuStreamSynchronize(stream));
    CHECK_DRIVER(cuEventDestroy(others));
    if (!first_) CHECK_DRIVER(cuIpcCloseMemHandle(base));
    Tell();
    Hear();
    CHECK_DRIVER(cuEventDestroy(own));
    CHECK_DRIVER(cuStreamDestroy(stream));
  }
  void Tell() { SendFd(socket_, "t", 1, -1); }
  void Hear() {
    char said = 0;
    ReceiveFd(socket_, &said, 1);
  }
  CUdeviceptr at(int i) const { return base + static_cast<CUdeviceptr>(i) * 64; }
  uint32_t Read(int i) const {
    uint32_t value = 0;
    CHECK_DRIVER(cuMemcpyDtoHAsync(&value, at(i), sizeof(value), stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    return value;
  }

 private:
  struct Message {
    CUipcMemHandle memory;
    CUipcEventHandle event;
  };
  const int socket_;
  const bool first_;
  std::vector<Words> words_;

 public:
  const CUstream stream;
  CUdeviceptr base = 0;
  CUevent own, others;
};

// In turns: each one's step waits for the other's last one by an event, and nothing else keeps them apart.
void Events(Pair& pair, bool first) {
  CHECK_DRIVER(cuMemsetD32Async(pair.at(kFlag), 1, 1, pair.stream));
  CHECK_DRIVER(cuStreamSynchronize(pair.stream));
  for (uint32_t i = 0; i < options.rounds; ++i) {
    if (!first || i > 0) {
      pair.Hear();
      CHECK_DRIVER(cuStreamWaitEvent(pair.stream, pair.others, 0));
    }
    Step(pair.stream, pair.at(kFlag), pair.at(kSum));
    CHECK_DRIVER(cuEventRecord(pair.own, pair.stream));
    pair.Tell();
  }
  if (first) {
    pair.Hear();
    CHECK_DRIVER(cuStreamWaitEvent(pair.stream, pair.others, 0));
    EXPECT_EQ(pair.Read(kSum), 2 * options.rounds);
  }
}

// The same by a number in the memory of both, all rounds enqueued at once.
void Turns(Pair& pair, bool first, bool spins) {
  for (uint32_t i = 0; i < options.rounds; ++i) {
    const uint32_t turn = 2 * i + (first ? 0 : 1);
    if (spins) {
      AwaitFlag(pair.stream, pair.at(kOther), turn);
    } else {
      CHECK_DRIVER(cuStreamWaitValue32(pair.stream, pair.at(kOther), turn, CU_STREAM_WAIT_VALUE_GEQ));
    }
    Step(pair.stream, pair.at(kOther), pair.at(kSum));
    if (spins) {
      SetFlag(pair.stream, pair.at(kOther), turn + 1);
    } else {
      CHECK_DRIVER(cuStreamWriteValue32(pair.stream, pair.at(kOther), turn + 1, 0));
    }
  }
  CHECK_DRIVER(cuStreamSynchronize(pair.stream));
  pair.Tell();
  pair.Hear();
  EXPECT_EQ(pair.Read(kSum), 2 * options.rounds - 1);  // the very first one saw no flag
}

// One's launches behind an event that is recorded behind the other's work, which waits for the program.
void BehindEvent(Pair& pair, bool first) {
  if (first) {
    pair.Hear();
    CHECK_DRIVER(cuStreamWaitEvent(pair.stream, pair.others, 0));
    for (uint32_t i = 0; i < options.launches; ++i) Step(pair.stream, pair.at(kFlag), pair.at(kSum));
    pair.Tell();
    EXPECT_EQ(pair.Read(kSum), options.launches);
  } else {
    CHECK_DRIVER(cuStreamWaitValue32(pair.stream, pair.at(kOther), 1, CU_STREAM_WAIT_VALUE_GEQ));
    SetFlag(pair.stream, pair.at(kFlag), 1);
    CHECK_DRIVER(cuEventRecord(pair.own, pair.stream));
    pair.Tell();
    pair.Hear();
    const CUstream other = NewStream();
    SetFlag(other, pair.at(kOther), 1);
    CHECK_DRIVER(cuStreamSynchronize(other));
    CHECK_DRIVER(cuStreamDestroy(other));
  }
}

// A kernel that waits for long. The other process works meanwhile.
void Long(Pair& pair, bool first) {
  if (first) {
    AwaitFlag(pair.stream, pair.at(kFlag), 1);
    Step(pair.stream, pair.at(kFlag), pair.at(kSum));
    pair.Tell();
    EXPECT_EQ(pair.Read(kSum), 1u);
  } else {
    pair.Hear();
    const Words words;
    const Clock::time_point end = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(options.seconds * 1e6));
    while (Clock::now() < end) {
      Step(pair.stream, words.at(kFlag), words.at(kSum));
      CHECK_DRIVER(cuStreamSynchronize(pair.stream));
    }
    const uint32_t one = 1;
    CHECK_DRIVER(cuMemcpyHtoD(pair.at(kFlag), &one, sizeof(one)));
  }
}

using PairCase = void (*)(Pair& pair, bool first);
PairCase FindPair(const std::string& name) {
  if (name == "events") return Events;
  if (name == "flags") return [](Pair& pair, bool first) { Turns(pair, first, true); };
  if (name == "values") return [](Pair& pair, bool first) { Turns(pair, first, false); };
  if (name == "event") return BehindEvent;
  if (name == "long") return Long;
  return nullptr;
}

void AwaitLine(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
  char line[100];
  if (std::fgets(line, sizeof(line), stdin) == nullptr) std::fputs("no line\n", stderr);
}

void Capture() {
  const CUstream stream = NewStream(), other = NewStream();
  const Words words;
  Learn(other);
  CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  Step(stream, words.at(kFlag), words.at(kSum));
  AwaitLine("captures");
  for (uint32_t i = 1; i < options.launches; ++i) {
    Step(stream, words.at(kFlag), words.at(kSum));
    if (i == 1) SetFlag(other, words.at(kFlag), 1);  // not captured, beside it
  }
  CHECK_DRIVER(cuMemcpyDtoDAsync(words.at(kOther), words.at(kSum), 4, stream));
  CUgraph graph;
  CUgraphExec instance;
  CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
  CHECK_DRIVER(cuGraphInstantiate(&instance, graph, 0));
  CHECK_DRIVER(cuStreamSynchronize(other));
  EXPECT_EQ(words.Read(kSum), 0u);
  AwaitLine("captured");
  for (int i = 0; i < 2; ++i) CHECK_DRIVER(cuGraphLaunch(instance, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(words.Read(kSum), 2 * options.launches);
  EXPECT_EQ(words.Read(kOther), 2 * options.launches);
  CHECK_DRIVER(cuGraphExecDestroy(instance));
  CHECK_DRIVER(cuGraphDestroy(graph));
  CHECK_DRIVER(cuStreamDestroy(stream));
  CHECK_DRIVER(cuStreamDestroy(other));
}

// A host function that waits until it is let go on, or for half a second: a driver may stop launches behind it before the last
// one.
struct Gate {
  std::atomic<bool> open{false};
  void Await() const {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(500);
    while (!open.load() && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

void Functions() {
  const CUstream stream = NewStream();
  const Words words;
  Gate gate;
  CHECK_DRIVER(cuLaunchHostFunc(
      stream, [](void* user) { static_cast<Gate*>(user)->Await(); }, &gate));
  constexpr uint32_t kLaunches = 10'000;
  for (uint32_t i = 0; i < kLaunches; ++i) SetFlag(stream, words.at(kFlag), i + 1);
  gate.open = true;
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(words.Read(kFlag), kLaunches);
  CHECK_DRIVER(cuStreamDestroy(stream));
}

// All that a host function may ask, of its own stream and of another one, while launches wait behind it.
struct Asking {
  CUstream own, other;
  CUevent begun, ended;
  CUresult own_event = CUDA_ERROR_UNKNOWN, own_stream = CUDA_ERROR_UNKNOWN, other_event = CUDA_ERROR_UNKNOWN,
           waited = CUDA_ERROR_UNKNOWN, recorded = CUDA_ERROR_UNKNOWN;
  std::atomic<bool> asked{false};
};
void CUDA_CB Ask(void* user) {
  Asking& asking = *static_cast<Asking*>(user);
  asking.own_event = cuEventQuery(asking.ended);
  asking.own_stream = cuStreamQuery(asking.own);
  while ((asking.other_event = cuEventQuery(asking.begun)) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  asking.waited = cuStreamSynchronize(asking.other);
  asking.recorded = cuEventRecord(asking.begun, asking.other);
  if (asking.recorded == CUDA_SUCCESS) asking.recorded = cuEventSynchronize(asking.begun);
  asking.asked = true;
}

void Aside() {
  const Words words;
  words.Write(kFlag, 1);
  Asking asking;
  asking.own = NewStream();
  asking.other = NewStream();
  Learn(asking.own);
  CHECK_DRIVER(cuEventCreate(&asking.begun, CU_EVENT_DISABLE_TIMING));
  CHECK_DRIVER(cuEventCreate(&asking.ended, CU_EVENT_DISABLE_TIMING));
  Step(asking.other, words.at(kFlag), words.at(kOther));
  CHECK_DRIVER(cuEventRecord(asking.begun, asking.other));
  // Recorded anew behind the function: it sees that one undone.
  CHECK_DRIVER(cuStreamWaitValue32(asking.own, words.at(kFlag), 2, CU_STREAM_WAIT_VALUE_GEQ));
  CHECK_DRIVER(cuLaunchHostFunc(asking.own, Ask, &asking));
  CHECK_DRIVER(cuEventRecord(asking.ended, asking.own));
  SetFlag(asking.other, words.at(kFlag), 2);
  for (uint32_t i = 0; i < options.launches; ++i) Step(asking.own, words.at(kFlag), words.at(kSum));
  CHECK_DRIVER(cuStreamSynchronize(asking.own));
  EXPECT_EQ(asking.asked.load(), true);
  EXPECT_EQ(asking.own_event, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(asking.own_stream, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(asking.other_event, CUDA_SUCCESS);
  EXPECT_EQ(asking.waited, CUDA_SUCCESS);
  EXPECT_EQ(asking.recorded, CUDA_SUCCESS);
  EXPECT_EQ(words.Read(kSum), options.launches);
  EXPECT_EQ(words.Read(kOther), 1u);
  CHECK_DRIVER(cuEventDestroy(asking.begun));
  CHECK_DRIVER(cuEventDestroy(asking.ended));
  CHECK_DRIVER(cuStreamDestroy(asking.own));
  CHECK_DRIVER(cuStreamDestroy(asking.other));
}

// Calls of other threads stand behind the launches of this one, and are answered.
void Threads() {
  const CUstream stream = NewStream();
  const Words words, memory;
  Learn(stream);
  CUcontext context;
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  std::atomic<bool> ends{false};
  std::atomic<uint32_t> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      CHECK_DRIVER(cuCtxSetCurrent(context));
      const CUstream own = NewStream();
      CUevent event;
      CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
      uint32_t value = 0;
      while (!ends.load()) {
        const CUresult asked = cuStreamQuery(stream);
        EXPECT_EQ(asked == CUDA_SUCCESS || asked == CUDA_ERROR_NOT_READY, true);
        CHECK_DRIVER(cuMemsetD32Async(memory.at(i), ++value, 1, own));
        CHECK_DRIVER(cuEventRecord(event, own));
        CHECK_DRIVER(cuEventSynchronize(event));
        EXPECT_EQ(memory.Read(i), value);
        ++answered;
      }
      CHECK_DRIVER(cuEventDestroy(event));
      CHECK_DRIVER(cuStreamDestroy(own));
    });
  }
  CHECK_DRIVER(cuStreamWaitValue32(stream, words.at(kFlag), 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (uint32_t i = 0; i < options.launches; ++i) Step(stream, words.at(kFlag), words.at(kSum));
  const uint32_t before = answered;
  while (answered < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const CUstream other = NewStream();
  SetFlag(other, words.at(kFlag), 1);
  CHECK_DRIVER(cuStreamSynchronize(stream));
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(words.Read(kSum), options.launches);
  CHECK_DRIVER(cuStreamDestroy(other));
  CHECK_DRIVER(cuStreamDestroy(stream));
}

bool RunAlone(const std::string& name) {
  for (const char* const release : {"record", "kernel", "copy", "host"}) {
    if (name == std::string("value-") + release) return Behind(false, release), true;
    if (name == std::string("spin-") + release) return Behind(true, release), true;
  }
  if (name == "capture") return Capture(), true;
  if (name == "functions") return Functions(), true;
  if (name == "aside") return Aside(), true;
  if (name == "threads") return Threads(), true;
  if (name == "idle") return AwaitLine("idle"), true;
  return false;
}

// The second process: the same words, and the socket.
class Peer {
 public:
  explicit Peer(char** words) {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    EXPECT_EQ(sockets[0] >= 0 && fcntl(sockets[0], F_SETFD, FD_CLOEXEC) == 0, true);
    socket_ = sockets[0];
    std::vector<std::string> more = {"--socket", std::to_string(sockets[1])};
    std::vector<char*> arguments;
    for (char** word = words; *word != nullptr; ++word) arguments.push_back(*word);
    for (std::string& word : more) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (!options.peer_vgpu.empty()) setenv("TESSERA_VGPU", options.peer_vgpu.c_str(), 1);
    EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
    close(sockets[1]);
  }
  ~Peer() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
  }
  int socket() const { return socket_; }

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  int socket = -1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      names.push_back(word);
      continue;
    }
    const char* const value = i + 1 < argc ? argv[++i] : "";
    if (word == "--launches") options.launches = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    if (word == "--kernel-us") options.kernel_us = std::strtoull(value, nullptr, 0);
    if (word == "--rounds") options.rounds = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    if (word == "--seconds") options.seconds = std::strtod(value, nullptr);
    if (word == "--peer-vgpu") options.peer_vgpu = value;
    if (word == "--socket") socket = std::atoi(value);
  }
  const bool first = socket < 0;
  std::optional<Peer> peer;  // a process of its own, before this one has begun anything
  const bool pairs = std::any_of(names.begin(), names.end(), [](const std::string& name) { return FindPair(name) != nullptr; });
  if (first && pairs) socket = peer.emplace(argv).socket();
  LoadKernels();
  UseAll();
  for (const std::string& name : names) {
    const Clock::time_point begin = Clock::now();
    if (const auto pair_case = FindPair(name)) {
      Pair pair(socket, first);
      pair_case(pair, first);
    } else if (first && !RunAlone(name)) {
      std::fprintf(stderr, "there is no case %s\n", name.c_str());
      return 2;
    }
    if (!first) continue;
    std::printf("%s %.0f\n", name.c_str(), std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    std::fflush(stdout);
  }
  return 0;
}
