// Registering memory that other processes may have: over a channel whose ends share no pages the program is told, once, what it
// loses. Both ends in one process, on the emulator.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "tests/client-stub/both_ends.h"

namespace tessera {
namespace {

constexpr size_t kBytes = 8192;

// What registering memory of this kind says.
std::string Register(int flags, int fd, int protection = PROT_READ | PROT_WRITE) {
  void* memory = mmap(nullptr, kBytes, protection, flags, fd, 0);
  EXPECT_NE(memory, MAP_FAILED);
  testing::internal::CaptureStderr();
  void* const inside = static_cast<std::byte*>(memory) + 4096 + 64;
  const unsigned read_only = (protection & PROT_WRITE) == 0 ? CU_MEMHOSTREGISTER_READ_ONLY : 0;
  EXPECT_EQ(cuMemHostRegister(inside, 64, CU_MEMHOSTREGISTER_DEVICEMAP | read_only), CUDA_SUCCESS);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(cuMemHostUnregister(inside), CUDA_SUCCESS);
  munmap(memory, kBytes);
  return said;
}

TEST(SharedRegistration, IsWarnedOfOnceOverALink) {
  const int file = memfd_create("shared", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  {
    BothEnds on_one_host;
    EXPECT_EQ(Register(MAP_PRIVATE | MAP_ANONYMOUS, -1), "");
    EXPECT_EQ(Register(MAP_SHARED, file), "");
  }
  setenv("TESSERA_TEST_CHANNEL", "mirrored", 1);
  BothEnds over_a_link;
  EXPECT_EQ(Register(MAP_PRIVATE | MAP_ANONYMOUS, -1), "");
  EXPECT_EQ(Register(MAP_PRIVATE, file), "");
  const std::string said = Register(MAP_SHARED, file, PROT_READ);
  EXPECT_NE(said.find("warning: cuMemHostRegister_v2: other processes may write this memory (64 bytes of a shared mapping)"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  EXPECT_EQ(Register(MAP_SHARED | MAP_ANONYMOUS, -1), "");
  close(file);
}

}  // namespace
}  // namespace tessera
