// Devices of several servers in one process: everything on each of them, and everything between them.
// usage: two_servers [PART [ROUNDS]]
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

__device__ int offset = 5;

__global__ void fill(unsigned char* to, size_t bytes, int seed) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += gridDim.x * blockDim.x) {
    to[i] = static_cast<unsigned char>(i * 7 + seed);
  }
}
__global__ void add(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += offset;
}
__global__ void twice(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= 2;
}

using Bytes = std::vector<unsigned char>;

Bytes pattern(size_t bytes, int seed) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<unsigned char>(i * 7 + seed);
  return made;
}

// Holds a stream until it is opened.
struct Gate {
  std::atomic<bool> open{false};
  static void wait(void* gate) {
    while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
  }
};

struct Device {
  int number = 0;
  cudaStream_t stream = nullptr;
  unsigned char* memory = nullptr;
};
constexpr size_t kBytes = (size_t{5} << 20) + 3;
Device devices[2];

void use(const Device& device) { CHECK_CUDA(cudaSetDevice(device.number)); }

Bytes read(const Device& device, size_t bytes) {
  Bytes back(bytes);
  use(device);
  CHECK_CUDA(cudaMemcpy(back.data(), device.memory, bytes, cudaMemcpyDeviceToHost));
  return back;
}

void fill_now(const Device& device, int seed) {
  use(device);
  fill<<<16, 64, 0, device.stream>>>(device.memory, kBytes, seed);
  CHECK_CUDA(cudaGetLastError());
}

void identity() {
  char ids[2][32];
  cudaDeviceProp properties[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(cudaDeviceGetPCIBusId(ids[i], sizeof(ids[i]), i));
    CHECK_CUDA(cudaGetDeviceProperties(&properties[i], i));
    int found = -1;
    CHECK_CUDA(cudaDeviceGetByPCIBusId(&found, ids[i]));
    EXPECT_EQ(found, i);
    int can = -1;
    CHECK_CUDA(cudaDeviceCanAccessPeer(&can, i, 1 - i));
    EXPECT_EQ(can, 0);
  }
  EXPECT_EQ(std::strcmp(ids[0], ids[1]) != 0, true);
  EXPECT_EQ(std::memcmp(&properties[0].uuid, &properties[1].uuid, sizeof(cudaUUID_t)) != 0, true);
  EXPECT_EQ(properties[0].pciDomainID != properties[1].pciDomainID, true);
  use(devices[0]);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
  cudaGetLastError();
}

// Kernels, variables, sets, pools and managed memory of each device.
void alone(const Device& device) {
  constexpr int kCount = 1000;
  use(device);
  int* values;
  CHECK_CUDA(cudaMalloc(&values, kCount * sizeof(int)));
  CHECK_CUDA(cudaMemset(values, 0, kCount * sizeof(int)));
  const int wanted = 100 + device.number;
  CHECK_CUDA(cudaMemcpyToSymbol(offset, &wanted, sizeof(wanted)));
  add<<<8, 128>>>(values, kCount);
  std::vector<int> back(kCount);
  CHECK_CUDA(cudaMemcpy(back.data(), values, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : back) EXPECT_EQ(value, wanted);
  cudaPointerAttributes attributes;
  use(devices[1 - device.number]);
  CHECK_CUDA(cudaPointerGetAttributes(&attributes, values));
  EXPECT_EQ(attributes.device, device.number);
  EXPECT_EQ(static_cast<int>(attributes.type), static_cast<int>(cudaMemoryTypeDevice));
  // Freed while the other device is current.
  CHECK_CUDA(cudaFree(values));
  EXPECT_EQ(cudaFree(values), cudaErrorInvalidValue);
  cudaGetLastError();
  use(device);
  CHECK_CUDA(cudaMallocAsync(&values, kCount * sizeof(int), device.stream));
  CHECK_CUDA(cudaMemsetAsync(values, 1, kCount * sizeof(int), device.stream));
  CHECK_CUDA(cudaMemcpyAsync(back.data(), values, kCount * sizeof(int), cudaMemcpyDeviceToHost, device.stream));
  CHECK_CUDA(cudaFreeAsync(values, device.stream));
  CHECK_CUDA(cudaStreamSynchronize(device.stream));
  EXPECT_EQ(back[kCount - 1], 0x01010101);
  int* managed;
  CHECK_CUDA(cudaMallocManaged(&managed, kCount * sizeof(int)));
  for (int i = 0; i < kCount; ++i) managed[i] = i;
  twice<<<8, 128>>>(managed, kCount);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(managed[i], 2 * i);
  CHECK_CUDA(cudaFree(managed));
}

// A graph that is captured on each device, with a copy and a kernel.
void graph(const Device& device) {
  constexpr int kCount = 256;
  use(device);
  int* values;
  std::vector<int> host(kCount, 3);
  CHECK_CUDA(cudaMalloc(&values, kCount * sizeof(int)));
  CHECK_CUDA(cudaMemcpy(values, host.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeRelaxed));
  twice<<<2, 128, 0, device.stream>>>(values, kCount);
  twice<<<2, 128, 0, device.stream>>>(values, kCount);
  CHECK_CUDA(cudaStreamEndCapture(device.stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK_CUDA(cudaGraphLaunch(exec, device.stream));
  CHECK_CUDA(cudaStreamSynchronize(device.stream));
  CHECK_CUDA(cudaMemcpy(host.data(), values, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  for (int value : host) EXPECT_EQ(value, 3 * 64);
  // In a stream of the other server it cannot run.
  EXPECT_EQ(cudaGraphLaunch(exec, devices[1 - device.number].stream) != cudaSuccess, true);
  cudaGetLastError();
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaFree(values));
}

// Copies of odd sizes in both directions, in every form, right behind the work that makes their source.
void copies() {
  for (const size_t bytes : {size_t{1}, size_t{13}, size_t{4097}, (size_t{2} << 20) + 7, kBytes}) {
    for (int from = 0; from < 2; ++from) {
      const Device& source = devices[from];
      const Device& destination = devices[1 - from];
      for (int form = 0; form < 6; ++form) {
        const int seed = static_cast<int>(bytes % 100) + 10 * from + form;
        fill_now(destination, 200);
        CHECK_CUDA(cudaStreamSynchronize(destination.stream));
        fill_now(source, seed);
        switch (form) {
          case 0: CHECK_CUDA(cudaMemcpyPeer(destination.memory, destination.number, source.memory, source.number, bytes)); break;
          case 1: CHECK_CUDA(cudaMemcpy(destination.memory, source.memory, bytes, cudaMemcpyDefault)); break;
          case 2:  // in the source's stream
            CHECK_CUDA(
                cudaMemcpyPeerAsync(destination.memory, destination.number, source.memory, source.number, bytes, source.stream));
            CHECK_CUDA(cudaStreamSynchronize(source.stream));
            break;
          case 3:
            CHECK_CUDA(cudaMemcpyAsync(destination.memory, source.memory, bytes, cudaMemcpyDeviceToDevice, source.stream));
            fill<<<16, 64, 0, source.stream>>>(source.memory, kBytes, 99);  // after the copy
            CHECK_CUDA(cudaStreamSynchronize(source.stream));
            break;
          case 4: {  // in the destination's, behind an event of the source's
            cudaEvent_t made;
            CHECK_CUDA(cudaEventCreate(&made));
            CHECK_CUDA(cudaEventRecord(made, source.stream));
            use(destination);
            CHECK_CUDA(cudaStreamWaitEvent(destination.stream, made, 0));
            CHECK_CUDA(cudaMemcpyPeerAsync(destination.memory, destination.number, source.memory, source.number, bytes,
                                           destination.stream));
            CHECK_CUDA(cudaStreamSynchronize(destination.stream));
            CHECK_CUDA(cudaEventDestroy(made));
            break;
          }
          default:
            use(destination);
            CHECK_DRIVER(cuMemcpyDtoD(reinterpret_cast<CUdeviceptr>(destination.memory),
                                      reinterpret_cast<CUdeviceptr>(source.memory), bytes));
        }
        EXPECT_EQ(read(destination, bytes) == pattern(bytes, seed), true);
        if (bytes < kBytes) EXPECT_EQ(read(destination, kBytes)[bytes], pattern(kBytes, 200)[bytes]);
      }
      // To and from the host while the other device is current.
      const Bytes wanted = pattern(bytes, 31);
      use(destination);
      CHECK_CUDA(cudaMemcpy(source.memory, wanted.data(), bytes, cudaMemcpyHostToDevice));
      Bytes back(bytes);
      CHECK_CUDA(cudaMemcpyAsync(back.data(), source.memory, bytes, cudaMemcpyDeviceToHost, destination.stream));
      CHECK_CUDA(cudaStreamSynchronize(destination.stream));
      EXPECT_EQ(back == wanted, true);
    }
  }
}

// Boxes with pitches of their own.
void boxes() {
  constexpr size_t kWidth = 37, kHeight = 11, kFromPitch = 64, kToPitch = 100;
  for (int from = 0; from < 2; ++from) {
    const Device& source = devices[from];
    const Device& destination = devices[1 - from];
    fill_now(destination, 200);
    CHECK_CUDA(cudaStreamSynchronize(destination.stream));
    fill_now(source, 17);
    CHECK_CUDA(cudaMemcpy2D(destination.memory + 3, kToPitch, source.memory + 5, kFromPitch, kWidth, kHeight, cudaMemcpyDefault));
    const Bytes made = pattern(kBytes, 17), before = pattern(kBytes, 200), got = read(destination, kBytes);
    for (size_t y = 0; y < kHeight; ++y) {
      for (size_t x = 0; x < kWidth; ++x) EXPECT_EQ(got[3 + y * kToPitch + x], made[5 + y * kFromPitch + x]);
      EXPECT_EQ(got[3 + y * kToPitch + kWidth], before[3 + y * kToPitch + kWidth]);
    }
    cudaMemcpy3DPeerParms box{};
    box.srcPtr = make_cudaPitchedPtr(source.memory, kFromPitch, kFromPitch, 8);
    box.dstPtr = make_cudaPitchedPtr(destination.memory, kToPitch, kToPitch, 9);
    box.srcDevice = source.number;
    box.dstDevice = destination.number;
    box.extent = make_cudaExtent(kWidth, 5, 3);
    CHECK_CUDA(cudaMemcpy3DPeerAsync(&box, destination.stream));
    CHECK_CUDA(cudaStreamSynchronize(destination.stream));
    const Bytes cube = read(destination, kBytes);
    for (size_t z = 0; z < 3; ++z) {
      for (size_t y = 0; y < 5; ++y) {
        for (size_t x = 0; x < kWidth; ++x) {
          EXPECT_EQ(cube[(z * 9 + y) * kToPitch + x], made[(z * 8 + y) * kFromPitch + x]);
        }
      }
    }
  }
}

// A stream waits for another server's event, which stands behind a gate.
void events() {
  for (int from = 0; from < 2; ++from) {
    const Device& source = devices[from];
    const Device& destination = devices[1 - from];
    Gate gate;
    cudaEvent_t made, arrived;
    fill_now(source, 1);
    use(source);
    CHECK_CUDA(cudaStreamSynchronize(source.stream));
    CHECK_CUDA(cudaEventCreate(&made));
    CHECK_CUDA(cudaLaunchHostFunc(source.stream, &Gate::wait, &gate));
    fill<<<16, 64, 0, source.stream>>>(source.memory, kBytes, 42);
    CHECK_CUDA(cudaEventRecord(made, source.stream));
    use(destination);
    CHECK_CUDA(cudaEventCreate(&arrived));
    CHECK_CUDA(cudaStreamWaitEvent(destination.stream, made, 0));
    CHECK_CUDA(
        cudaMemcpyPeerAsync(destination.memory, destination.number, source.memory, source.number, kBytes, destination.stream));
    CHECK_CUDA(cudaEventRecord(arrived, destination.stream));
    EXPECT_EQ(cudaEventQuery(arrived), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(destination.stream), cudaErrorNotReady);
    cudaGetLastError();
    gate.open = true;
    CHECK_CUDA(cudaEventSynchronize(arrived));
    EXPECT_EQ(read(destination, kBytes) == pattern(kBytes, 42), true);
    float milliseconds = 0;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, made, arrived), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaEventRecord(made, destination.stream), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    // Not in a capture.
    cudaGraph_t none = nullptr;
    CHECK_CUDA(cudaEventRecord(made, source.stream));
    CHECK_CUDA(cudaStreamBeginCapture(destination.stream, cudaStreamCaptureModeRelaxed));
    EXPECT_EQ(cudaStreamWaitEvent(destination.stream, made, 0) != cudaSuccess, true);
    cudaGetLastError();
    cudaStreamEndCapture(destination.stream, &none);
    cudaGetLastError();
    CHECK_CUDA(cudaEventDestroy(made));
    CHECK_CUDA(cudaEventDestroy(arrived));
  }
}

// Pinned memory that one device writes and the other one reads, each when its stream gets there.
void pinned(bool registered) {
  constexpr size_t kSize = (size_t{3} << 20) + 5;
  use(devices[0]);
  std::vector<unsigned char> own(registered ? kSize : 0);
  unsigned char* host = own.data();
  if (registered) {
    CHECK_CUDA(cudaHostRegister(host, kSize, cudaHostRegisterPortable));
  } else {
    CHECK_CUDA(cudaHostAlloc(&host, kSize, cudaHostAllocPortable));
  }
  for (int from = 0; from < 2; ++from) {
    const Device& source = devices[from];
    const Device& destination = devices[1 - from];
    std::memset(host, 0, kSize);
    Gate gate;
    cudaEvent_t written;
    use(source);
    CHECK_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    CHECK_CUDA(cudaLaunchHostFunc(source.stream, &Gate::wait, &gate));
    fill<<<16, 64, 0, source.stream>>>(source.memory, kBytes, 60 + from);
    CHECK_CUDA(cudaMemcpyAsync(host, source.memory, kSize, cudaMemcpyDeviceToHost, source.stream));
    CHECK_CUDA(cudaEventRecord(written, source.stream));
    use(destination);
    CHECK_CUDA(cudaStreamWaitEvent(destination.stream, written, 0));
    CHECK_CUDA(cudaMemcpyAsync(destination.memory, host, kSize, cudaMemcpyHostToDevice, destination.stream));
    gate.open = true;
    CHECK_CUDA(cudaStreamSynchronize(destination.stream));
    EXPECT_EQ(read(destination, kSize) == pattern(kSize, 60 + from), true);
    CHECK_CUDA(cudaEventDestroy(written));
  }
  use(devices[1]);  // given back while the other device is current
  if (registered) {
    CHECK_CUDA(cudaHostUnregister(host));
  } else {
    CHECK_CUDA(cudaFreeHost(host));
  }
}

// Two devices that work on the same values in turn, the host far ahead of them.
void ping_pong(int rounds) {
  constexpr int kCount = 777;
  int* values[2];
  cudaEvent_t done[2];
  for (const Device& device : devices) {
    use(device);
    const int step = device.number + 1;
    CHECK_CUDA(cudaMalloc(&values[device.number], kCount * sizeof(int)));
    CHECK_CUDA(cudaMemset(values[device.number], 0, kCount * sizeof(int)));
    CHECK_CUDA(cudaMemcpyToSymbol(offset, &step, sizeof(step)));
    CHECK_CUDA(cudaEventCreateWithFlags(&done[device.number], cudaEventDisableTiming));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  for (int round = 0; round < rounds; ++round) {
    for (int here = 0; here < 2; ++here) {
      use(devices[here]);
      if (round + here > 0) CHECK_CUDA(cudaStreamWaitEvent(devices[here].stream, done[1 - here], 0));
      add<<<8, 128, 0, devices[here].stream>>>(values[here], kCount);
      CHECK_CUDA(cudaMemcpyPeerAsync(values[1 - here], 1 - here, values[here], here, kCount * sizeof(int), devices[here].stream));
      CHECK_CUDA(cudaEventRecord(done[here], devices[here].stream));
    }
  }
  for (const Device& device : devices) {
    use(device);
    CHECK_CUDA(cudaStreamSynchronize(device.stream));
  }
  for (int here = 0; here < 2; ++here) {
    std::vector<int> back(kCount);
    use(devices[here]);
    CHECK_CUDA(cudaMemcpy(back.data(), values[here], kCount * sizeof(int), cudaMemcpyDeviceToHost));
    for (int value : back) EXPECT_EQ(value, 3 * rounds);
    CHECK_CUDA(cudaFree(values[here]));
    CHECK_CUDA(cudaEventDestroy(done[here]));
  }
}

// Libraries and kernels of the driver API, which belong to no device.
void library(CUlibrary loaded) {
  CUkernel kernel = nullptr, again = nullptr;
  CHECK_DRIVER(cuLibraryGetKernel(&kernel, loaded, "set"));
  for (const Device& device : devices) {
    use(device);
    CHECK_DRIVER(cuLibraryGetKernel(&again, loaded, "set"));
    EXPECT_EQ(again == kernel, true);
    CUlibrary its = nullptr;
    CHECK_DRIVER(cuKernelGetLibrary(&its, kernel));
    EXPECT_EQ(its == loaded, true);
    CUfunction function = nullptr;
    CHECK_DRIVER(cuKernelGetFunction(&function, kernel));
    CUdeviceptr at = reinterpret_cast<CUdeviceptr>(device.memory);
    int value = 1000 + device.number;
    void* parameters[] = {&at, &value};
    const auto launched = reinterpret_cast<CUfunction>(kernel);
    CHECK_DRIVER(cuLaunchKernel(launched, 1, 1, 1, 1, 1, 1, 0, device.stream, parameters, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(device.stream));
    int got = 0;
    CHECK_CUDA(cudaMemcpy(&got, device.memory, sizeof(got), cudaMemcpyDeviceToHost));
    EXPECT_EQ(got, value);
    value += 10;
    CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, device.stream, parameters, nullptr));
    CHECK_CUDA(cudaStreamSynchronize(device.stream));
    CHECK_CUDA(cudaMemcpy(&got, device.memory, sizeof(got), cudaMemcpyDeviceToHost));
    EXPECT_EQ(got, value);
  }
  CHECK_DRIVER(cuLibraryUnload(loaded));
  EXPECT_EQ(cuLibraryGetKernel(&again, loaded, "set") != CUDA_SUCCESS, true);
}

constexpr char kImage[] = R"(.version 7.0
.target sm_52
.address_size 64
.visible .entry set(.param .u64 to, .param .u32 value) {
  .reg .u64 %rd<2>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1; ret;
})";

int main(int argc, char** argv) {
  int count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  for (int i = 0; i < 2; ++i) {
    devices[i].number = i;
    use(devices[i]);
    CHECK_CUDA(cudaStreamCreateWithFlags(&devices[i].stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&devices[i].memory, kBytes));
  }
  const std::string only = argc > 1 ? argv[1] : "";
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (wanted("identity")) identity();
  for (const Device& device : devices) {
    if (wanted("alone")) alone(device);
    if (wanted("graph")) graph(device);
  }
  if (wanted("library")) {
    Bytes image(kImage, kImage + sizeof(kImage));
    CUlibrary loaded = nullptr;
    CHECK_DRIVER(cuLibraryLoadData(&loaded, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    std::fill(image.begin(), image.end(), 0);  // the application drops it
    library(loaded);
  }
  if (wanted("copies")) copies();
  if (wanted("boxes")) boxes();
  if (wanted("events")) events();
  if (wanted("pinned")) {
    pinned(false);
    pinned(true);
  }
  if (wanted("ping_pong")) ping_pong(argc > 2 ? std::atoi(argv[2]) : 40);
  if (wanted("threads")) {
    std::vector<std::thread> threads;
    for (const Device& device : devices) {
      threads.emplace_back([&device] {
        for (int i = 0; i < 3; ++i) graph(device);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::printf("ok\n");
}
