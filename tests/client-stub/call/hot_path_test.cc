// What asynchronous calls cost their caller: a record, and nothing else. The calling thread may make no system call but those of
// a futex (who waits for records is woken), and no allocation.
#include <cuda.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <thread>

#include "tests/client-stub/both_ends.h"

namespace {

thread_local bool counted_thread = false;
std::atomic<uint64_t> allocations{0};
std::atomic<int> system_call{-1};  // the last one that was refused

void* Allocate(size_t bytes) {
  if (counted_thread) allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The stub is C++ throughout: what it allocates comes from here.
void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }

namespace tessera {
namespace {

constexpr char kPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add(.param .u64 out, .param .u32 i, .param .f32 f) { ret; }\n";
constexpr int kRounds = 200;

// From now on the calling thread is sent SIGSYS for system calls other than a futex's, its yields and its end.
void RefuseSystemCalls() {
  constexpr int kAllowed[] = {SYS_futex,      SYS_sched_yield, SYS_rt_sigreturn, SYS_exit,
                              SYS_exit_group, SYS_madvise,     SYS_munmap,       SYS_rt_sigprocmask};
  sock_filter program[std::size(kAllowed) + 3];
  size_t count = 0;
  program[count++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (size_t i = 0; i < std::size(kAllowed); ++i) {
    program[count++] =
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kAllowed[i]), static_cast<uint8_t>(std::size(kAllowed) - i), 0);
  }
  program[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  program[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter = {static_cast<unsigned short>(count), program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

void NoteSystemCall(int, siginfo_t* info, void* context) {
  system_call = info->si_syscall;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
}

class HotPath : public testing::Test {
 protected:
  HotPath() {
    Ends();
    struct sigaction action {};
    action.sa_sigaction = NoteSystemCall;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, nullptr);
    EXPECT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&kernel_, module_, "add"), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&memory_, 4096), CUDA_SUCCESS);
  }

  // Nothing but records, whoever is called.
  void Watch(const std::function<CUresult()>& call) {
    Count(call);
    EXPECT_EQ(allocations_, 0u);
    EXPECT_EQ(system_call, -1) << "the number of a system call";
  }
  // On a thread of its own, after what happens once.
  void Count(const std::function<CUresult()>& call) {
    std::thread([&] {
      CUcontext context = Ends().context();
      ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      for (int i = 0; i < 10; ++i) ASSERT_EQ(call(), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      RefuseSystemCalls();
      const uint64_t before = allocations;
      counted_thread = true;
      CUresult result = CUDA_SUCCESS;
      for (int i = 0; i < kRounds && result == CUDA_SUCCESS; ++i) result = call();
      counted_thread = false;
      EXPECT_EQ(result, CUDA_SUCCESS);
      allocations_ = allocations - before;
    }).join();
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }

  uint64_t allocations_ = 0;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(HotPath, TheTestNoticesWhatItLooksFor) {
  Count([] {
    std::make_unique<int>(1).reset();
    return getppid() >= 0 ? CUDA_SUCCESS : CUDA_SUCCESS;
  });
  EXPECT_GE(allocations_, 1u);
  EXPECT_EQ(system_call, SYS_getppid);
  system_call = -1;
}

TEST_F(HotPath, Launch) {
  uint32_t i = 1;
  float f = 2;
  void* arguments[] = {&memory_, &i, &f};
  Watch([&] { return cuLaunchKernel(kernel_, 4, 1, 1, 64, 1, 1, 0, stream_, arguments, nullptr); });
}

TEST_F(HotPath, LaunchWithAttributes) {
  uint32_t i = 1;
  float f = 2;
  void* arguments[] = {&memory_, &i, &f};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  Watch([&] { return cuLaunchKernelEx(&config, kernel_, arguments, nullptr); });
}

TEST_F(HotPath, RecordAndWait) {
  Watch([&] {
    const CUresult recorded = cuEventRecord(event_, stream_);
    return recorded != CUDA_SUCCESS ? recorded : cuStreamWaitEvent(stream_, event_, 0);
  });
}

TEST_F(HotPath, SetOnTheDevice) {
  Watch([&] { return cuMemsetD8Async(memory_, 1, 4096, stream_); });
}

TEST_F(HotPath, CopyOnTheDevice) {
  Watch([&] { return cuMemcpyDtoDAsync(memory_, memory_ + 2048, 1024, stream_); });
}

TEST_F(HotPath, CopyOfPinnedMemory) {
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 4096, 0), CUDA_SUCCESS);
  Watch([&] { return cuMemcpyHtoDAsync(memory_, pinned, 4096, stream_); });
}

TEST_F(HotPath, Questions) {
  int value = 0;
  CUcontext context = nullptr;
  CUdevice device = 0;
  Watch([&] {
    CUresult result = cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel_);
    if (result == CUDA_SUCCESS) result = cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS) result = cuCtxGetDevice(&device);
    return result == CUDA_SUCCESS ? cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) : result;
  });
}

}  // namespace
}  // namespace tessera
