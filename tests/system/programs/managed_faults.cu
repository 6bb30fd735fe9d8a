// What forwarded managed memory has and the driver's has not. The SIGSEGV behind it and the program's own: each handler sees
// what is its own, and a fault that is nobody's ends the process as it would without managed memory.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

// The emulated driver places it at a low address, as it likes.
__managed__ int variable = 5;

// Before anything of CUDA's runs: takes all those addresses.
__attribute__((constructor(101))) static void TakeAddresses(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "taken") != 0) return;
  mmap(reinterpret_cast<void*>(0x300000000), 0xd00000000, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

static sigjmp_buf out;
static int first_faults, second_faults;
static void* fault_address;
static struct sigaction before_second;

static void First(int, siginfo_t* info, void*) {
  ++first_faults;
  fault_address = info->si_addr;
  siglongjmp(out, 1);
}

static void Second(int number, siginfo_t* info, void* context) {
  ++second_faults;
  before_second.sa_sigaction(number, info, context);  // hands on to whoever was there before
}

static void Install(void (*handler)(int, siginfo_t*, void*), struct sigaction* before) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, before);
}

// Whether reading there faults for the program.
static bool Faults(const volatile int* address) {
  if (sigsetjmp(out, 1) != 0) return true;
  (void)*address;
  return false;
}

__global__ void Increment(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += 1;
}

static const int n = 100000;

static int* Zeros() {
  int* values = nullptr;
  CHECK_CUDA(cudaMallocManaged(&values, n * sizeof(int)));
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], 0);
  return values;
}

static void UseOnDevice(int* values) {
  Increment<<<(n + 255) / 256, 256>>>(values, n);
  CHECK_CUDA(cudaDeviceSynchronize());
}

static int StatusOf(const char* self, const char* mode) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    execl(self, self, mode, nullptr);
    _exit(100);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    if (std::strcmp(argv[1], "taken") == 0) return cudaFree(nullptr) == cudaSuccess ? 1 : 0;
    int* values = Zeros();
    UseOnDevice(values);
    EXPECT_EQ(values[3], 1);
    UseOnDevice(values);
    if (std::strcmp(argv[1], "null") == 0) *static_cast<volatile int*>(nullptr) = 1;
    if (std::strcmp(argv[1], "sent") == 0) raise(SIGSEGV);
    if (std::strcmp(argv[1], "failed") == 0) {
      Increment<<<1, 1>>>(nullptr, 1);
      (void)*static_cast<volatile int*>(values);  // the kernel's results are lost, and no others are shown
    }
    if (std::strcmp(argv[1], "freed") == 0) {
      CHECK_CUDA(cudaFree(values));
      *static_cast<volatile int*>(values) = 1;
    }
    return 0;
  }
  int value = -1;
  CHECK_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrManagedMemory, 0));
  EXPECT_EQ(value, 1);
  CHECK_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, 0));
  if (value != 0) {  // the driver's own managed memory: not what this program is about
    std::printf("ok\n");
    return 0;
  }
  // Without a handler of the program's.
  for (const char* mode : {"null", "sent", "failed", "freed"}) {
    const int status = StatusOf(argv[0], mode);
    EXPECT_EQ(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, true);
  }
  const auto place = reinterpret_cast<uintptr_t>(&variable);
  if (place >= 0x300000000 && place < 0x1000000000) EXPECT_EQ(StatusOf(argv[0], "taken"), 0);
  EXPECT_EQ(variable, 5);

  // With one that was there before.
  Install(First, nullptr);
  int* values = Zeros();
  UseOnDevice(values);
  for (int i = 0; i < n; ++i) EXPECT_EQ(values[i], 1);
  EXPECT_EQ(first_faults, 0);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(Faults(reinterpret_cast<int*>(64)), true);
    EXPECT_EQ(first_faults, i);
    EXPECT_EQ(fault_address == reinterpret_cast<void*>(64), true);
  }

  // With one that comes later and calls the earlier one, which is ours: from the next launch on ours is first again.
  Install(Second, &before_second);
  for (int round = 0; round < 3; ++round) {
    UseOnDevice(values);
    values[7] = 10;
    UseOnDevice(values);
    EXPECT_EQ(values[7], 11);
    EXPECT_EQ(second_faults, round);
    EXPECT_EQ(Faults(reinterpret_cast<int*>(64)), true);
    EXPECT_EQ(second_faults, round + 1);
    EXPECT_EQ(first_faults, 4 + round);
  }

  // On a thread with a signal stack of its own, and many threads at one page.
  UseOnDevice(values);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([values] {
      std::vector<char> stack(1 << 16);
      stack_t alternative{};
      alternative.ss_sp = stack.data();
      alternative.ss_size = stack.size();
      sigaltstack(&alternative, nullptr);
      for (int i = 100; i < n; ++i) EXPECT_EQ(values[i], 8);
      alternative.ss_flags = SS_DISABLE;
      sigaltstack(&alternative, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();

  // A freed block is nobody's, and a new one holds nothing of it.
  int* other = Zeros();
  CHECK_CUDA(cudaFree(values));
  EXPECT_EQ(Faults(values), true);
  int* again = Zeros();
  UseOnDevice(again);
  EXPECT_EQ(again[n - 1], 1);
  CHECK_CUDA(cudaFree(other));
  CHECK_CUDA(cudaFree(again));
  std::printf("ok\n");
}
