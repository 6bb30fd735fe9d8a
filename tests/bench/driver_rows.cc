#include "tests/bench/driver_rows.h"

#include <utility>

namespace tessera {
namespace {

// The loop is inside of what is called through a pointer: a call is measured, not a call through a pointer.
template <typename Call>
DriverRow Row(std::string name, bool caller, Call call) {
  return {std::move(name), caller, [call](GpuAtHand& gpu, int count) {
            for (int i = 0; i < count; ++i) call(gpu);
          }};
}

template <typename Call>
DriverRow Caller(const char* name, Call call) {
  return Row(std::string("caller/") + name, true, call);
}

template <typename Call>
DriverRow Whole(const char* name, Call call) {
  return Row(name, false, call);
}

// A graph of three launches, made when it is first wanted.
CUgraphExec Graph(GpuAtHand& gpu) {
  static CUgraphExec const made = [&gpu] {
    CUgraph graph;
    CUgraphExec executable;
    CHECK_DRIVER(cuStreamBeginCapture(gpu.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < 3; ++i) gpu.Launch();
    CHECK_DRIVER(cuStreamEndCapture(gpu.stream, &graph));
    CHECK_DRIVER(cuGraphInstantiate(&executable, graph, 0));
    return executable;
  }();
  return made;
}

void CallHost(GpuAtHand& gpu) {
  CHECK_DRIVER(cuLaunchHostFunc(
      gpu.stream, [](void*) {}, nullptr));
}

void AllocateAndFree(size_t bytes) {
  CUdeviceptr address;
  CHECK_DRIVER(cuMemAlloc(&address, bytes));
  CHECK_DRIVER(cuMemFree(address));
}

void AllocateAndFreeInOrder(GpuAtHand& gpu) {
  CUdeviceptr address;
  CHECK_DRIVER(cuMemAllocAsync(&address, size_t{2} << 20, gpu.stream));
  CHECK_DRIVER(cuMemFreeAsync(address, gpu.stream));
}

// A reservation with 2 MiB of memory at its beginning, which the GPU may reach, from one end to the other.
void UseAddressSpace(size_t reserved) {
  constexpr size_t kMapped = size_t{2} << 20;
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  static const CUmemGenericAllocationHandle physical = [&] {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = here;
    CUmemGenericAllocationHandle made;
    CHECK_DRIVER(cuMemCreate(&made, kMapped, &properties, 0));
    return made;
  }();
  const CUmemAccessDesc access{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address;
  CHECK_DRIVER(cuMemAddressReserve(&address, reserved, 0, 0, 0));
  CHECK_DRIVER(cuMemMap(address, kMapped, 0, physical, 0));
  CHECK_DRIVER(cuMemSetAccess(address, kMapped, &access, 1));
  CHECK_DRIVER(cuMemUnmap(address, kMapped));
  CHECK_DRIVER(cuMemAddressFree(address, reserved));
}

void AddCallers(std::vector<DriverRow>& rows) {
  rows.push_back(Caller("current_context", [](GpuAtHand&) {
    CUcontext context;
    CHECK_DRIVER(cuCtxGetCurrent(&context));
  }));
  rows.push_back(Caller("current_device", [](GpuAtHand&) {
    CUdevice device;
    CHECK_DRIVER(cuCtxGetDevice(&device));
  }));
  rows.push_back(Caller("launch_3_arguments", [](GpuAtHand& gpu) { gpu.Launch(); }));
  rows.push_back(Caller("launch_2048_bytes", [](GpuAtHand& gpu) {
    static char block[2048];
    void* parameters[] = {block};
    CHECK_DRIVER(cuLaunchKernel(gpu.block_of_2048, 1, 1, 1, 32, 1, 1, 0, gpu.stream, parameters, nullptr));
  }));
  rows.push_back(Caller("graph_launch", [](GpuAtHand& gpu) { CHECK_DRIVER(cuGraphLaunch(Graph(gpu), gpu.stream)); }));
  rows.push_back(Caller("event_record", [](GpuAtHand& gpu) { CHECK_DRIVER(cuEventRecord(gpu.event, gpu.stream)); }));
  rows.push_back(Caller("stream_wait", [](GpuAtHand& gpu) { CHECK_DRIVER(cuStreamWaitEvent(gpu.stream, gpu.event, 0)); }));
  rows.push_back(Caller("set_4_bytes", [](GpuAtHand& gpu) { CHECK_DRIVER(cuMemsetD8Async(gpu.memory, 0, 4, gpu.stream)); }));
  rows.push_back(Caller("to_device_4_bytes", [](GpuAtHand& gpu) { gpu.Copy(true, HostKind::kPinned, 4); }));
  rows.push_back(Caller("event_create_destroy", [](GpuAtHand&) {
    CUevent event;
    CHECK_DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK_DRIVER(cuEventDestroy(event));
  }));
  rows.push_back(Caller("stream_create_destroy", [](GpuAtHand&) {
    CUstream stream;
    CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_DRIVER(cuStreamDestroy(stream));
  }));
  rows.push_back(Caller("host_function", CallHost));
}

void AddWholes(std::vector<DriverRow>& rows) {
  rows.push_back(Whole("launch_synchronize", [](GpuAtHand& gpu) {
    gpu.Launch();
    gpu.Synchronize();
  }));
  rows.push_back(Whole("graph_launch_synchronize", [](GpuAtHand& gpu) {
    CHECK_DRIVER(cuGraphLaunch(Graph(gpu), gpu.stream));
    gpu.Synchronize();
  }));
  // The GPU is what takes the time.
  rows.push_back(Whole("kernels/20_of_4000_loops", [](GpuAtHand& gpu) {
    for (int i = 0; i < 20; ++i) gpu.Loop(4000);
    gpu.Synchronize();
  }));
  rows.push_back(Whole("synchronize_idle_context", [](GpuAtHand&) { CHECK_DRIVER(cuCtxSynchronize()); }));
  rows.push_back(Whole("event_query_finished", [](GpuAtHand& gpu) {
    if (cuEventQuery(gpu.event) != CUDA_SUCCESS) gpu.Synchronize();
  }));
  rows.push_back(Whole("record_and_poll", [](GpuAtHand& gpu) {
    CHECK_DRIVER(cuEventRecord(gpu.event, gpu.stream));
    while (cuEventQuery(gpu.event) == CUDA_ERROR_NOT_READY) {
    }
  }));
  rows.push_back(Whole("read_4_bytes_pinned", [](GpuAtHand& gpu) {
    gpu.Copy(false, HostKind::kPinned, 4);
    gpu.Synchronize();
  }));
  rows.push_back(Whole("read_4_bytes_pageable", [](GpuAtHand& gpu) {
    unsigned word;
    CHECK_DRIVER(cuMemcpyDtoH(&word, gpu.memory, sizeof(word)));
  }));
  rows.push_back(Whole("write_4_bytes_pageable", [](GpuAtHand& gpu) {
    const unsigned word = 7;
    CHECK_DRIVER(cuMemcpyHtoD(gpu.memory, &word, sizeof(word)));
  }));
  rows.push_back(Whole("set_1MiB", [](GpuAtHand& gpu) {
    CHECK_DRIVER(cuMemsetD8Async(gpu.memory, 0, size_t{1} << 20, gpu.stream));
    gpu.Synchronize();
  }));
  rows.push_back(Whole("host_function_synchronize", [](GpuAtHand& gpu) {
    CallHost(gpu);
    gpu.Synchronize();
  }));
  rows.push_back(Whole("allocate_free_1MiB", [](GpuAtHand&) { AllocateAndFree(size_t{1} << 20); }));
  rows.push_back(Whole("allocate_free_2MiB", [](GpuAtHand&) { AllocateAndFree(size_t{2} << 20); }));
  rows.push_back(Whole("reserve_map_unmap_free_158GiB", [](GpuAtHand&) { UseAddressSpace(uint64_t{158} << 30); }));
  rows.push_back(Whole("allocate_free_64MiB", [](GpuAtHand&) { AllocateAndFree(size_t{64} << 20); }));
}

// At the end: once memory was freed in stream order, waits are the driver's own (server/worker/driver_chores.h).
void AddFreesInOrder(std::vector<DriverRow>& rows) {
  rows.push_back(Caller("allocate_free_in_order_2MiB", AllocateAndFreeInOrder));
  rows.push_back(Whole("allocate_free_in_order_2MiB", [](GpuAtHand& gpu) {
    AllocateAndFreeInOrder(gpu);
    gpu.Synchronize();
  }));
}

// What programs do with one GPU, in small: launches that nobody waits for, a batch that goes there, a number that comes back.
void Step(GpuAtHand& gpu, int launches) {
  gpu.Copy(true, HostKind::kPageable, size_t{64} << 10);
  for (int i = 0; i < launches; ++i) gpu.Launch();
}

void AddSteps(std::vector<DriverRow>& rows) {
  // Ten steps of training, of which the last one's loss is read.
  rows.push_back(Whole("steps/10_of_training", [](GpuAtHand& gpu) {
    unsigned loss;
    for (int i = 0; i < 10; ++i) Step(gpu, 100);
    gpu.Synchronize();
    CHECK_DRIVER(cuMemcpyDtoH(&loss, gpu.memory, sizeof(loss)));
  }));
  // A token decoded: each is read before the next step.
  rows.push_back(Whole("steps/1_of_decoding", [](GpuAtHand& gpu) {
    unsigned token;
    for (int i = 0; i < 100; ++i) gpu.Launch();
    CHECK_DRIVER(cuMemcpyDtoHAsync(&token, gpu.memory, sizeof(token), gpu.stream));
    gpu.Synchronize();
  }));
}

void AddCopies(std::vector<DriverRow>& rows) {
  constexpr size_t kKiB = 1024;
  constexpr size_t kMiB = 1024 * kKiB;
  constexpr std::pair<HostKind, const char*> kKinds[] = {
      {HostKind::kPinned, "pinned/"}, {HostKind::kPageable, "pageable/"}, {HostKind::kRegistered, "registered/"}};
  for (const size_t bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB}) {
    const std::string size = bytes < kMiB ? std::to_string(bytes / kKiB) + "KiB" : std::to_string(bytes / kMiB) + "MiB";
    for (const bool to_device : {true, false}) {
      for (const auto& [kind, name] : kKinds) {
        DriverRow row = Row((to_device ? "to_device/" : "from_device/") + std::string(name) + size, false,
                            [to_device, kind = kind, bytes](GpuAtHand& gpu) {
                              gpu.Copy(to_device, kind, bytes);
                              gpu.Synchronize();
                            });
        row.bytes = bytes;
        rows.push_back(std::move(row));
      }
    }
  }
}

}  // namespace

std::vector<DriverRow> DriverRows() {
  std::vector<DriverRow> rows;
  AddCallers(rows);
  AddWholes(rows);
  AddSteps(rows);
  AddCopies(rows);
  AddFreesInOrder(rows);
  return rows;
}

}  // namespace tessera
