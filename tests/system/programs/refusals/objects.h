// What rows ask with: objects that end with their scope. An object that cannot be made ends the process, so that a row
// never reports the failure of its own preparation as the answer.
#pragma once

#include <cuda.h>
#include <sys/mman.h>

#include <cstdint>

#include "../check.h"

namespace refusals {

template <typename Handle>
Handle Unknown() {  // no handle that either side ever gave
  return reinterpret_cast<Handle>(uintptr_t{0x7777'0000'1230});
}

// A place for an answer that nobody reads: cuMemAlloc(Out<CUdeviceptr>(), 64).
template <typename T>
struct Out {
  operator T*() { return &value; }
  T value{};
};

constexpr CUdeviceptr kNowhere = 0x10000;

struct Stream {
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING) { CHECK_DRIVER(cuStreamCreate(&it, flags)); }
  ~Stream() { cuStreamDestroy(it); }
  operator CUstream() const { return it; }
  CUstream it = nullptr;
};

struct Event {
  explicit Event(unsigned flags = CU_EVENT_DEFAULT) { CHECK_DRIVER(cuEventCreate(&it, flags)); }
  ~Event() { cuEventDestroy(it); }
  operator CUevent() const { return it; }
  CUevent it = nullptr;
};

struct Block {
  explicit Block(size_t bytes = 4096) { CHECK_DRIVER(cuMemAlloc(&it, bytes)); }
  ~Block() { cuMemFree(it); }
  operator CUdeviceptr() const { return it; }
  CUdeviceptr it = 0;
};

struct Managed {
  Managed() { CHECK_DRIVER(cuMemAllocManaged(&it, 4096, CU_MEM_ATTACH_GLOBAL)); }
  ~Managed() { cuMemFree(it); }
  operator CUdeviceptr() const { return it; }
  CUdeviceptr it = 0;
};

struct Pooled {
  explicit Pooled(size_t bytes = 4096) {
    CHECK_DRIVER(cuMemAllocAsync(&it, bytes, nullptr));
    CHECK_DRIVER(cuStreamSynchronize(nullptr));
  }
  ~Pooled() { cuMemFreeAsync(it, nullptr); }
  operator CUdeviceptr() const { return it; }
  CUdeviceptr it = 0;
};

struct Pinned {
  Pinned() { CHECK_DRIVER(cuMemHostAlloc(&it, 4096, 0)); }
  ~Pinned() { cuMemFreeHost(it); }
  operator void*() const { return it; }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(it); }
  void* it = nullptr;
};

// Pages of the process, of which the driver knows nothing.
struct Pages {
  explicit Pages(size_t count = 4) : bytes(count * 4096) {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::exit(1);
    it = static_cast<char*>(mapped);
    for (size_t i = 0; i < bytes; i += 4096) it[i] = 1;
  }
  ~Pages() { munmap(it, bytes); }
  operator void*() const { return it; }
  CUdeviceptr address(size_t offset = 0) const { return reinterpret_cast<CUdeviceptr>(it + offset); }
  size_t bytes;
  char* it = nullptr;
};

struct Registered : Pages {
  Registered() { CHECK_DRIVER(cuMemHostRegister(it, bytes, 0)); }
  ~Registered() { cuMemHostUnregister(it); }
};

inline CUmemAllocationProp OnDevice() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return prop;
}

constexpr size_t kMapped = size_t{2} << 20;

struct Physical {
  Physical() {
    const CUmemAllocationProp prop = OnDevice();
    CHECK_DRIVER(cuMemCreate(&it, kMapped, &prop, 0));
  }
  ~Physical() { cuMemRelease(it); }
  operator CUmemGenericAllocationHandle() const { return it; }
  CUmemGenericAllocationHandle it = 0;
};

// Two pieces of address space, nothing behind them.
struct Reserved {
  Reserved() { CHECK_DRIVER(cuMemAddressReserve(&it, 2 * kMapped, 0, 0, 0)); }
  ~Reserved() { cuMemAddressFree(it, 2 * kMapped); }
  operator CUdeviceptr() const { return it; }
  CUdeviceptr it = 0;
};

// The first piece is mapped and may be used.
struct Mapped {
  Mapped() {
    CHECK_DRIVER(cuMemMap(range, kMapped, 0, memory, 0));
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK_DRIVER(cuMemSetAccess(range, kMapped, &access, 1));
  }
  ~Mapped() { cuMemUnmap(range, kMapped); }
  operator CUdeviceptr() const { return range; }
  Physical memory;
  Reserved range;
};

// Another context of the device. It is current only inside In().
struct OtherContext {
  OtherContext() {
    CHECK_DRIVER(cuCtxCreate(&it, nullptr, 0, 0));
    CUcontext popped;
    CHECK_DRIVER(cuCtxPopCurrent(&popped));
  }
  ~OtherContext() {
    if (it != nullptr) cuCtxDestroy(it);
  }
  template <typename Make>
  auto In(Make make) const {
    CHECK_DRIVER(cuCtxPushCurrent(it));
    auto made = make();
    CUcontext popped;
    CHECK_DRIVER(cuCtxPopCurrent(&popped));
    return made;
  }
  operator CUcontext() const { return it; }
  CUcontext it = nullptr;
};

// Kernels: Nothing(), Store(u64 place) and variables; version and target are those of the first device that has all of
// it.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 variable = 7;
.visible .entry Nothing() { ret; }
.visible .entry Store(.param .u64 place) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [place];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

struct Module {
  Module() { CHECK_DRIVER(cuModuleLoadData(&it, kPtx)); }
  ~Module() {
    if (it != nullptr) cuModuleUnload(it);
  }
  CUfunction operator[](const char* name) const {
    CUfunction function;
    CHECK_DRIVER(cuModuleGetFunction(&function, it, name));
    return function;
  }
  CUdeviceptr Variable() const {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CHECK_DRIVER(cuModuleGetGlobal(&address, &bytes, it, "variable"));
    return address;
  }
  operator CUmodule() const { return it; }
  CUmodule it = nullptr;
};

struct Library {
  Library() { CHECK_DRIVER(cuLibraryLoadData(&it, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0)); }
  ~Library() {
    if (it != nullptr) cuLibraryUnload(it);
  }
  CUkernel operator[](const char* name) const {
    CUkernel kernel;
    CHECK_DRIVER(cuLibraryGetKernel(&kernel, it, name));
    return kernel;
  }
  operator CUlibrary() const { return it; }
  CUlibrary it = nullptr;
};

struct Graph {
  Graph() { CHECK_DRIVER(cuGraphCreate(&it, 0)); }
  ~Graph() {
    if (it != nullptr) cuGraphDestroy(it);
  }
  CUgraphNode Empty() const {
    CUgraphNode node;
    CHECK_DRIVER(cuGraphAddEmptyNode(&node, it, nullptr, 0));
    return node;
  }
  CUgraphNode Kernel(CUfunction function) const {
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    CUgraphNode node;
    CHECK_DRIVER(cuGraphAddKernelNode(&node, it, nullptr, 0, &params));
    return node;
  }
  CUgraphNode Set(CUdeviceptr address, size_t bytes = 4) const {
    const CUDA_MEMSET_NODE_PARAMS params{address, 0, 0, 1, bytes, 1};
    CUcontext context;
    CUgraphNode node;
    CHECK_DRIVER(cuCtxGetCurrent(&context));
    CHECK_DRIVER(cuGraphAddMemsetNode(&node, it, nullptr, 0, &params, context));
    return node;
  }
  CUgraphExec Instantiate() const {
    CUgraphExec exec;
    CHECK_DRIVER(cuGraphInstantiate(&exec, it, 0));
    return exec;
  }
  operator CUgraph() const { return it; }
  CUgraph it = nullptr;
};

struct Exec {
  explicit Exec(const Graph& graph) : it(graph.Instantiate()) {}
  ~Exec() {
    if (it != nullptr) cuGraphExecDestroy(it);
  }
  operator CUgraphExec() const { return it; }
  CUgraphExec it;
};

// Ends the capture, and destroys its graph if there is one.
inline CUresult End(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult result = cuStreamEndCapture(stream, &graph);
  if (graph != nullptr) cuGraphDestroy(graph);
  return result;
}

// A capture that its scope ends.
struct Capture {
  explicit Capture(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL, unsigned flags = CU_STREAM_NON_BLOCKING)
      : stream(flags) {
    CHECK_DRIVER(cuStreamBeginCapture(stream, mode));
  }
  ~Capture() { End(stream); }
  operator CUstream() const { return stream; }
  Stream stream;
};

inline CUmemPoolProps PinnedPoolProps() {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return props;
}

inline CUmemoryPool DefaultPool() {
  CUmemoryPool pool;
  CHECK_DRIVER(cuDeviceGetDefaultMemPool(&pool, 0));
  return pool;
}

inline constexpr CUDA_ARRAY_DESCRIPTOR kFlat{64, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};

struct Array {
  Array() { CHECK_DRIVER(cuArrayCreate(&it, &kFlat)); }
  ~Array() {
    if (it != nullptr) cuArrayDestroy(it);
  }
  operator CUarray() const { return it; }
  CUarray it = nullptr;
};

inline CUcontext Current() {
  CUcontext context = nullptr;
  CHECK_DRIVER(cuCtxGetCurrent(&context));
  return context;
}

// `ask` while `context`, or none, is current.
template <typename Ask>
CUresult With(CUcontext context, Ask ask) {
  const CUcontext mine = Current();
  CHECK_DRIVER(cuCtxSetCurrent(context));
  const CUresult result = ask();
  CHECK_DRIVER(cuCtxSetCurrent(mine));
  return result;
}

// Objects of another context, which end with it.
inline CUevent EventOf(const OtherContext& other, unsigned flags = 0) {
  return other.In([&] {
    CUevent made;
    CHECK_DRIVER(cuEventCreate(&made, flags));
    return made;
  });
}

inline CUstream StreamOf(const OtherContext& other) {
  return other.In([] {
    CUstream made;
    CHECK_DRIVER(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
  });
}

inline CUdeviceptr BlockOf(const OtherContext& other) {
  return other.In([] {
    CUdeviceptr made;
    CHECK_DRIVER(cuMemAlloc(&made, 4096));
    return made;
  });
}

inline CUmodule ModuleOf(const OtherContext& other) {
  return other.In([] {
    CUmodule made;
    CHECK_DRIVER(cuModuleLoadData(&made, kPtx));
    return made;
  });
}

inline CUfunction FunctionOf(const OtherContext& other) {
  CUfunction function;
  CHECK_DRIVER(cuModuleGetFunction(&function, ModuleOf(other), "Nothing"));
  return function;
}

// A handle whose object has gone.
template <typename Object>
auto Gone() {
  Object object;
  return object.it;
}

}  // namespace refusals
