// The process ends while threads are in calls: main returns, static objects free what they own, exit handlers run. Whatever the
// threads do, it ends with 0, and its last handler prints "ok".
//
// usage: exit_threads KIND MICROSECONDS [WAY]
//   KIND          what the threads do (below)
//   MICROSECONDS  when main returns after they have begun
//   WAY           how it ends instead, without exit handlers: _exit, quick_exit (both with 7), abort, kill
#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ptx_program.h"

namespace {

constexpr const char* kKernels = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 stop)
{
  .reg .pred %p;
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [stop];
again:
  ld.volatile.global.u32 %r, [%rd];
  setp.eq.u32 %p, %r, 0;
  @%p bra again;
  ret;
}
.visible .entry nothing(.param .u64 unused)
{
  ret;
}
)";
constexpr size_t kBytes = size_t{24} << 20;

// As cudart: made before the first call, in use around every call of a thread, and gone after its own destructor.
struct Runtime {
  volatile char* page =
      static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ~Runtime() { munmap(const_cast<char*>(page), 4096); }
} runtime;

// Device memory that a static object frees: early ones after the driver has shut down, late ones before it does. In a forked
// child there is no driver.
struct Owner {
  CUdeviceptr memory = 0;
  ~Owner() {
    if (memory == 0) return;
    const CUresult result = cuMemFree(memory);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_NOT_INITIALIZED) return;
    std::printf("free: %d\n", static_cast<int>(result));
  }
} early;
// Memory that is registered, and never unregistered.
struct Buffer {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ~Buffer() { munmap(memory, kBytes); }
} registered;

CUcontext context;
CUfunction spin, nothing;
CUdeviceptr stop;
std::atomic<int> begun{0};
// Threads in waits without end. Main returns when all of them are there: one that is only about to call would find the driver
// gone.
std::mutex waiting_mutex;
bool nobody_waits_any_more = false;
std::vector<pid_t> waiting;

// What a thread does that has had an error: nothing that would disturb the end.
[[noreturn]] void Rest() {
  for (;;) pause();
}

// Main may return while the second thread is still getting ready.
#define SET_UP(call)                    \
  do {                                  \
    if ((call) != CUDA_SUCCESS) Rest(); \
  } while (false)

// The thread's first call was made.
void Begun() { begun.fetch_add(1); }

CUstream NewStream() {
  CUstream stream;
  SET_UP(cuCtxSetCurrent(context));
  SET_UP(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void Launch(CUfunction function, CUstream stream) {
  void* parameters[] = {&stop};
  if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) != CUDA_SUCCESS) Rest();
}

// For waits without end, whose threads must not come back.
template <typename Call>
void Wait(const Call& call) {
  {
    const std::lock_guard lock(waiting_mutex);
    if (nobody_waits_any_more) Rest();
    *runtime.page = 1;
    waiting.push_back(gettid());
  }
  Begun();
  call();
  *runtime.page = 2;
  Rest();
}

template <typename Call>
void Loop(const Call& call) {
  while (call() == CUDA_SUCCESS) {
    if (begun.load(std::memory_order_relaxed) == 0) Begun();
  }
  Rest();
}

CUdeviceptr Allocated(size_t bytes) {
  CUdeviceptr memory;
  SET_UP(cuMemAlloc(&memory, bytes));
  return memory;
}

void InStream() {
  const CUstream stream = NewStream();
  Launch(spin, stream);
  Wait([&] { cuStreamSynchronize(stream); });
}

void InContext() {
  Launch(spin, NewStream());
  Wait([] { cuCtxSynchronize(); });
}

void InEvent(unsigned flags) {
  const CUstream stream = NewStream();
  CUevent event;
  SET_UP(cuEventCreate(&event, flags));
  Launch(spin, stream);
  SET_UP(cuEventRecord(event, stream));
  Wait([&] { cuEventSynchronize(event); });
}

void InQueries() {
  const CUstream stream = NewStream();
  CUevent event;
  SET_UP(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Launch(spin, stream);
  SET_UP(cuEventRecord(event, stream));
  Loop([&] { return cuEventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; });
}

void InFullQueue() {
  const CUstream stream = NewStream();
  Launch(spin, stream);
  Loop([&] {
    Launch(nothing, stream);
    return CUDA_SUCCESS;
  });
}

void InLaunches() {
  const CUstream stream = NewStream();
  Loop([&] {
    Launch(nothing, stream);
    return cuStreamSynchronize(stream);
  });
}

void InCopies() {
  NewStream();
  auto* const host = new std::vector<char>(kBytes);
  const CUdeviceptr device = Allocated(kBytes);
  Loop([&] {
    const CUresult result = cuMemcpyHtoD(device, host->data(), kBytes);
    return result == CUDA_SUCCESS ? cuMemcpyDtoH(host->data(), device, kBytes) : result;
  });
}

void InRegistered() {
  const CUstream stream = NewStream();
  const CUdeviceptr device = Allocated(kBytes);
  auto* const host = static_cast<char*>(registered.memory);
  static std::atomic<bool> first{true};
  if (!first.exchange(false)) Rest();
  SET_UP(cuMemHostRegister(host, kBytes, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr mapped;
  SET_UP(cuMemHostGetDevicePointer(&mapped, host + kBytes / 2, 0));
  Loop([&] {
    for (size_t at = 0; at < kBytes / 2; at += kBytes / 64) {
      if (cuMemcpyDtoHAsync(host + at, device, 1024, stream) != CUDA_SUCCESS) Rest();
      if (cuMemcpyDtoHAsync(host + at, device, kBytes / 64, stream) != CUDA_SUCCESS) Rest();
    }
    if (cuMemsetD8Async(mapped, 1, 64, stream) != CUDA_SUCCESS) Rest();
    Launch(nothing, stream);
    return cuStreamSynchronize(stream);
  });
}

// Pages that go to and fro.
void InManaged() {
  NewStream();
  CUdeviceptr memory;
  SET_UP(cuMemAllocManaged(&memory, 1 << 20, CU_MEM_ATTACH_GLOBAL));
  Loop([&] {
    CUresult result = cuMemsetD8(memory, 1, 1 << 20);
    if (result == CUDA_SUCCESS) result = cuCtxSynchronize();
    if (result == CUDA_SUCCESS) std::memset(reinterpret_cast<void*>(memory), 2, 1 << 20);
    return result;
  });
}

// A page that a kernel without end may use.
void InTouch() {
  const CUstream stream = NewStream();
  CUdeviceptr memory;
  SET_UP(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
  SET_UP(cuMemsetD8(memory, 0, 4096));
  void* parameters[] = {&memory};
  SET_UP(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  Wait([&] { *reinterpret_cast<volatile char*>(memory + 100) = 0; });
}

void Use(void*) { *runtime.page = 3; }

void InHostFunctions() {
  const CUstream stream = NewStream();
  Loop([&] {
    const CUresult result = cuLaunchHostFunc(stream, Use, nullptr);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
  });
}

void InCallbacks() {
  const CUstream stream = NewStream();
  Loop([&] {
    const CUresult result = cuStreamAddCallback(
        stream, [](CUstream, CUresult, void*) { Use(nullptr); }, nullptr, 0);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
  });
}

void InHostFunction() {
  const CUstream stream = NewStream();
  SET_UP(cuLaunchHostFunc(
      stream, [](void*) { Wait([] { Rest(); }); }, nullptr));
  cuStreamSynchronize(stream);
  Rest();
}

void InLoads() {
  NewStream();
  Loop([] {
    CUmodule module;
    const CUresult result = cuModuleLoadData(&module, kKernels);
    return result == CUDA_SUCCESS ? cuModuleUnload(module) : result;
  });
}

void InAllocations() {
  NewStream();
  Loop([] {
    CUdeviceptr memory;
    void* host;
    CUresult result = cuMemAlloc(&memory, 3 << 20);
    if (result == CUDA_SUCCESS) result = cuMemFree(memory);
    if (result == CUDA_SUCCESS) result = cuMemAllocHost(&host, 1 << 20);
    return result == CUDA_SUCCESS ? cuMemFreeHost(host) : result;
  });
}

void InGraphs() {
  const CUstream stream = NewStream();
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  void* parameters[] = {&stop};
  kernel.func = nothing;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters;
  SET_UP(cuGraphCreate(&graph, 0));
  SET_UP(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  SET_UP(cuGraphInstantiate(&exec, graph, 0));
  Loop([&] {
    const CUresult result = cuGraphLaunch(exec, stream);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
  });
}

void InFirstCall() {
  Begun();
  if (cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS) cuCtxSetCurrent(context);
  Rest();
}

void ExitInHostFunction() {
  SET_UP(cuLaunchHostFunc(
      NewStream(), [](void*) { std::exit(0); }, nullptr));
  Rest();
}

// A child has the handlers of its parent, and no CUDA.
void InChild() {
  const CUstream stream = NewStream();
  Launch(spin, stream);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) std::printf("the child ended with status %d\n", status);
  Begun();
  Rest();
}

// Whether the kernel has this thread wait (proc(5), stat).
bool IsAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string words;
  std::getline(file, words);
  const size_t name_end = words.rfind(") ");
  return name_end != std::string::npos && (words[name_end + 2] == 'S' || words[name_end + 2] == 'D');
}

struct Kind {
  const char* name;
  void (*thread)();
  bool endless = false;  // has work that never ends, or ends in a host function, where memory is not freed
};
constexpr Kind kKinds[] = {
    {"stream", InStream, true},
    {"context", InContext, true},
    {"event", [] { InEvent(CU_EVENT_DEFAULT); }, true},
    {"blocking_event", [] { InEvent(CU_EVENT_BLOCKING_SYNC); }, true},
    {"queries", InQueries, true},
    {"full_queue", InFullQueue, true},
    {"launches", InLaunches},
    {"copies", InCopies},
    {"registered", InRegistered},
    {"managed", InManaged},
    {"touch", InTouch, true},
    {"host_functions", InHostFunctions},
    {"callbacks", InCallbacks},
    {"host_function", InHostFunction, true},
    {"loads", InLoads},
    {"allocations", InAllocations},
    {"graphs", InGraphs},
    {"first_call", InFirstCall},
    {"exit",
     [] {
       Begun();
       std::exit(0);
     }},
    {"exit_in_host_function", ExitInHostFunction, true},
    {"child", InChild, true},
};

pid_t process;
const Kind* kind = nullptr;

// Registered before the first call, so the driver has shut down when it runs.
void Last() {
  if (getpid() != process) return;
  const CUresult result = cuCtxSynchronize();
  // The driver has no handler if main returns during the first call.
  if (result == CUDA_ERROR_DEINITIALIZED || kind->thread == InFirstCall) {
    std::puts("ok");
  } else {
    std::printf("a call of an exit handler returned %d\n", static_cast<int>(result));
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const auto delay = std::chrono::microseconds(argc > 2 ? std::atoi(argv[2]) : 0);
  for (const Kind& each : kKinds) {
    if (name == "kinds") std::puts(each.name);
    if (name == each.name) kind = &each;
  }
  if (kind == nullptr) return name == "kinds" ? 0 : 2;
  process = getpid();
  std::atexit(Last);
  if (kind->thread != InFirstCall) {
    spin = LoadKernel(kKernels, "spin");
    CUmodule module;
    CHECK_DRIVER(cuCtxGetCurrent(&context));
    CHECK_DRIVER(cuModuleLoadData(&module, kKernels));
    CHECK_DRIVER(cuModuleGetFunction(&nothing, module, "nothing"));
    stop = Allocated(sizeof(int));
    CHECK_DRIVER(cuMemsetD32(stop, 0, 1));
    CHECK_DRIVER(cuCtxSynchronize());
    early.memory = Allocated(1 << 20);
    static Owner late;
    if (!kind->endless) late.memory = Allocated(1 << 20);  // to free memory is to wait for all work
  }
  const bool exits = name.starts_with("exit");
  for (int i = 0; i < (exits ? 1 : 2); ++i) std::thread(kind->thread).detach();
  if (exits) Rest();
  while (begun.load() == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  {
    const std::lock_guard lock(waiting_mutex);
    nobody_waits_any_more = true;
  }
  for (const pid_t thread : waiting) {
    while (!IsAsleep(thread)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::this_thread::sleep_for(delay);
  const std::string way = argc > 3 ? argv[3] : "";
  if (way == "_exit") _exit(7);
  if (way == "quick_exit") std::quick_exit(7);
  if (way == "abort") std::abort();
  if (way == "kill") std::raise(SIGKILL);
  return 0;
}
