#include "client-stub/process/address_windows.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera {
namespace {

void* MappedAt(uint64_t address, uint64_t bytes) {
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

// The windows are the process' own: every test runs in a child, whose exit code says which step failed (0: none).
int InChild(int (*body)()) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#if !defined(__SANITIZE_THREAD__)

TEST(AddressWindowsTest, RowsThatAreTakenAreNotOffered) {
  EXPECT_EQ(InChild([] {
              // One page in the middle of a window is enough to spoil its row.
              if (MappedAt(kWindowTable[0].host.base + (uint64_t{1} << 30), 4096) == MAP_FAILED) return 1;
              const uint32_t mask = AddressWindows::Process().Offer();
              if ((mask & 1) != 0) return 2;
              if ((mask & 2) == 0) return 3;
              return AddressWindows::Process().Offer() == mask ? 0 : 4;
            }),
            0);
}

#if !defined(__SANITIZE_ADDRESS__)  // has mapped more than any limit already
uint32_t OfferWithin(uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_AS, &limit) == 0 ? AddressWindows::Process().Offer() : 0;
}

TEST(AddressWindowsTest, ALimitOfAddressSpaceLeavesTheRowsThatFit) {
  // None of them where the kernel would put the driver's own mappings.
  EXPECT_EQ(InChild([] { return OfferWithin(kTebibyte) == 1u << 5 ? 0 : 1; }), 0);
  EXPECT_EQ(InChild([] { return OfferWithin(3 * kTebibyte) == (1u << 4 | 1u << 5) ? 0 : 1; }), 0);
  EXPECT_EQ(InChild([] { return OfferWithin(7 * kTebibyte) == (1u << 2 | 1u << 5) ? 0 : 1; }), 0);
  EXPECT_EQ(InChild([] { return OfferWithin(256 * kGibibyte) == 0 ? 0 : 1; }), 0);
}
#endif

TEST(AddressWindowsTest, TheRowOfSanitizersIsOfferedIfThereIsNoOther) {
  EXPECT_EQ(InChild([] { return (AddressWindows::Process().Offer() >> kSanitizedRow & 1) == 0 ? 0 : 1; }), 0);
  EXPECT_EQ(InChild([] {
              for (int row = 0; row < kWindowRows; ++row) {
                if (row != kSanitizedRow && MappedAt(kWindowTable[row].device.base, 4096) == MAP_FAILED) return 1;
              }
              return AddressWindows::Process().Offer() == 1u << kSanitizedRow ? 0 : 2;
            }),
            0);
}

TEST(AddressWindowsTest, KeepsOneRowAndGivesTheOthersBack) {
  EXPECT_EQ(InChild([] {
              AddressWindows& windows = AddressWindows::Process();
              if ((windows.Offer() & 3) != 3) return 1;
              if (windows.Keep(kWindowRows).ok() || windows.row() != -1) return 2;
              if (!windows.Keep(1).ok() || windows.row() != 1) return 3;
              if (windows.Keep(0).ok()) return 4;
              if (!windows.Keep(1).ok()) return 5;  // a second session
              if (windows.Offer() != 2) return 6;
              if (MappedAt(kWindowTable[0].device.base, 4096) == MAP_FAILED) return 7;
              if (MappedAt(kWindowTable[1].device.base, 4096) != MAP_FAILED) return 8;
              return 0;
            }),
            0);
}

TEST(AddressWindowsTest, DriverRangesAreReservedOnceAndNeverOverTheProgram) {
  EXPECT_EQ(InChild([] {
              AddressWindows& windows = AddressWindows::Process();
              windows.Offer();
              if (!windows.Keep(0).ok()) return 1;
              const uint64_t at = 0x650000000000;
              if (!windows.ReserveDriverRange(at + 100, 1000)) return 2;
              if (!windows.ReserveDriverRange(at, 4096)) return 3;             // reserved already
              if (!windows.ReserveDriverRange(at + 4000, 9000)) return 4;      // partly
              if (MappedAt(at + 8192, 4096) != MAP_FAILED) return 5;           // and held
              if (MappedAt(at + 0x100000, 4096) == MAP_FAILED) return 6;       // the program's own
              if (windows.ReserveDriverRange(at + 0xff000, 0x2000)) return 7;  // runs into it
              if (MappedAt(at + 0xff000, 4096) == MAP_FAILED) return 8;        // nothing was left behind
              if (!windows.ReserveDriverRange(kWindowTable[0].device.base + 5, 1 << 20)) return 9;
              if (windows.ReserveDriverRange(UINT64_MAX - 100, 1000)) return 10;
              // What one server's driver has is no other's, and each has its own part of the window.
              if (windows.ReserveDriverRange(at, 4096, 1)) return 12;
              if (windows.ReserveDriverRange(kWindowTable[0].device.base + 5, 1 << 20, 1)) return 13;
              const uint64_t part = SessionWindows(0, 1).device.base;
              if (!windows.ReserveDriverRange(part + 5, 1 << 20, 1)) return 14;
              if (windows.ReserveDriverRange(part + 5, 1 << 20)) return 15;
              if (!windows.ReserveDriverRange(at + 0x4000000, 4096, 1)) return 16;
              if (windows.ReserveDriverRange(at + 0x4000000, 4096)) return 17;
              if (windows.ReserveDriverRange(at, 0)) return 11;
              return 0;
            }),
            0);
}
#endif

}  // namespace
}  // namespace tessera
