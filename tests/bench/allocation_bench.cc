// What an allocation and its free cost a worker's heap, in instructions: tests/bench/quota runs it under callgrind and counts
// between CountedBegin() and CountedEnd().
//
//   allocation_bench unlimited|limited MIB        # the vGPU's memory; the size of a block
//
// A block of more than a chunk's cache takes (1 GiB) is got from the driver each time and counted by the ledger each time; others
// come from the cache, which the vGPU holds already. The driver is one in numbers, tests/server/worker/memory/fake_vmm.h.
#include <sys/eventfd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "protocol/base/check.h"
#include "protocol/base/unique_fd.h"
#include "server/worker/memory/device_heap.h"
#include "tests/bench/counted.h"
#include "tests/server/worker/memory/fake_vmm.h"
#include "tests/server/worker/one_gpu.h"

namespace tessera {
namespace {

constexpr int kPairs = 1000;
constexpr int kBefore = 10;  // what is done for the first time is done
constexpr uint64_t kContext = 1;
constexpr uint64_t kLimitBytes = uint64_t{64} << 30;

int Main(bool limited, uint64_t bytes) {
  FakeVmm vmm;
  vmm.device_bytes = kLimitBytes;
  DriverTable table = vmm.Table();
  AddOneGpu(table);
  const auto gate = std::make_unique<GatePage>();
  const auto report = std::make_unique<ReportPage>();
  gate->row_count = 1;
  std::memset(gate->rows[0].uuid, kOneGpuUuid, sizeof(gate->rows[0].uuid));
  if (limited) gate->rows[0].memory_limit = gate->rows[0].memory_budget = kLimitBytes;
  const UniqueFd event(eventfd(0, EFD_NONBLOCK));
  MemoryLedger ledger(table, GatePages{gate.get(), report.get(), event.get()}, {});
  CHECK(ledger.limited(0) == limited);

  DeviceHeap heap(table, ledger);
  heap.SetWindow({0x200000000000, uint64_t{1} << 40});
  const auto pair = [&] {
    uint64_t address = 0;
    CHECK(heap.Allocate(kContext, 0, bytes, &address) == CUDA_SUCCESS);
    CHECK(heap.BeginFree(address) == CUDA_SUCCESS);
    heap.EndFree(address);
  };
  for (int i = 0; i < kBefore; ++i) pair();
  CountedBegin();
  for (int i = 0; i < kPairs; ++i) pair();
  CountedEnd();
  std::printf("%d\n", kPairs);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string_view way = argc == 3 ? argv[1] : "";
  const uint64_t mib = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if ((way == "limited" || way == "unlimited") && mib != 0) return tessera::Main(way == "limited", mib << 20);
  std::fprintf(stderr, "usage: allocation_bench unlimited|limited MIB\n");
  return 2;
}
