#include "runner.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "../ptx_program.h"

namespace order_programs {
namespace {

constexpr const char* kKernelText = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry order(.param .u64 to, .param .u64 from, .param .u32 count, .param .u32 to_step, .param .u32 from_step,
                      .param .u32 value, .param .u64 wait_ns)
{
  .reg .pred %p<4>;
  .reg .b32 %r<12>;
  .reg .b64 %d<12>;
  ld.param.u64 %d0, [wait_ns];
  setp.eq.u64 %p0, %d0, 0;
  @%p0 bra WORK;
  mov.u64 %d1, %globaltimer;
WAIT:
  mov.u64 %d2, %globaltimer;
  sub.u64 %d2, %d2, %d1;
  setp.lt.u64 %p1, %d2, %d0;
  @%p1 bra WAIT;
WORK:
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [count];
  setp.ge.u32 %p2, %r0, %r1;
  @%p2 bra DONE;
  ld.param.u64 %d3, [to];
  ld.param.u64 %d4, [from];
  ld.param.u32 %r2, [to_step];
  ld.param.u32 %r3, [from_step];
  ld.param.u32 %r4, [value];
  mul.wide.u32 %d5, %r0, %r2;
  add.u64 %d3, %d3, %d5;
  mul.wide.u32 %d6, %r0, %r3;
  add.u64 %d4, %d4, %d6;
  ld.u8 %r5, [%d3];
  ld.u8 %r6, [%d4];
  mad.lo.u32 %r7, %r5, 3, %r6;
  add.u32 %r7, %r7, %r4;
  add.u32 %r7, %r7, %r0;
  st.u8 [%d3], %r7;
DONE:
  ret;
}
)";

unsigned char* Aligned(size_t bytes) {
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

CUfunction LoadOrderKernel() { return LoadKernel(kKernelText, "order"); }

void World::Check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  if (program_ != nullptr) {
    std::printf("seed %llu, %s", static_cast<unsigned long long>(program_->content), Text(*program_).c_str());
  }
  std::printf("BAD %s is %d\n", call, static_cast<int>(result));
  std::fflush(stdout);
  std::_Exit(1);
}
#define CHECK(call) Check(call, #call)

World::World(CUfunction kernel, size_t buffer_bytes, unsigned wait_us, OtherProcess* other)
    : kernel_(kernel), bytes_(buffer_bytes), wait_us_(wait_us), other_(other) {
  CHECK(cuCtxGetCurrent(&context_));
  for (int stream = 0; stream < kStreamCount; ++stream) {
    switch (kStreams[stream].kind) {
      case StreamKind::kLegacy: streams_[stream] = CU_STREAM_LEGACY; break;
      case StreamKind::kPerThread: streams_[stream] = CU_STREAM_PER_THREAD; break;
      case StreamKind::kBlocking: CHECK(cuStreamCreate(&streams_[stream], CU_STREAM_DEFAULT)); break;
      case StreamKind::kNonBlocking: CHECK(cuStreamCreate(&streams_[stream], CU_STREAM_NON_BLOCKING)); break;
    }
  }
  for (CUstream& stream : captures_) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (CUevent& event : events_) CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuMemAlloc(&flags_, kFlagCount * sizeof(uint32_t)));
  for (int buffer = 0; buffer < kBufferCount; ++buffer) Allocate(buffer);
  shared_ = other_->Open(device_[kShared]);
}

void World::Allocate(int buffer) {
  void* pinned = nullptr;
  switch (kBuffers[buffer].place) {
    case Place::kDevice:
    case Place::kShared: return CHECK(cuMemAlloc(&device_[buffer], bytes_));
    case Place::kPool:
      CHECK(cuMemAllocAsync(&device_[buffer], bytes_, CU_STREAM_LEGACY));
      return CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    case Place::kManaged:
      CHECK(cuMemAllocManaged(&device_[buffer], bytes_, CU_MEM_ATTACH_GLOBAL));
      host_[buffer] = reinterpret_cast<unsigned char*>(device_[buffer]);
      return;
    case Place::kPinned:
      CHECK(cuMemHostAlloc(&pinned, bytes_, CU_MEMHOSTALLOC_DEVICEMAP));
      host_[buffer] = static_cast<unsigned char*>(pinned);
      return;
    case Place::kRegistered: {
      const bool odd = std::string_view(kBuffers[buffer].name) == "registered1";  // begins within a page
      memory_[buffer] = Aligned(bytes_ + 256);
      host_[buffer] = memory_[buffer] + (odd ? 256 : 0);
      return CHECK(cuMemHostRegister(host_[buffer], bytes_, CU_MEMHOSTREGISTER_DEVICEMAP));
    }
    case Place::kPageable: host_[buffer] = memory_[buffer] = Aligned(bytes_); return;
  }
}

World::~World() {
  for (int stream = 0; stream < kStreamCount; ++stream) {
    if (kStreams[stream].kind == StreamKind::kBlocking || kStreams[stream].kind == StreamKind::kNonBlocking) {
      CHECK(cuStreamDestroy(streams_[stream]));
    }
  }
  for (CUstream stream : captures_) CHECK(cuStreamDestroy(stream));
  for (CUevent event : events_) CHECK(cuEventDestroy(event));
  CHECK(cuMemFree(flags_));
  CHECK(other_->Close());
  for (int buffer = 0; buffer < kBufferCount; ++buffer) {
    switch (kBuffers[buffer].place) {
      case Place::kDevice:
      case Place::kShared:
      case Place::kManaged: CHECK(cuMemFree(device_[buffer])); break;
      case Place::kPool: CHECK(cuMemFreeAsync(device_[buffer], CU_STREAM_LEGACY)); break;
      case Place::kPinned: CHECK(cuMemFreeHost(host_[buffer])); break;
      case Place::kRegistered: CHECK(cuMemHostUnregister(host_[buffer])); break;
      case Place::kPageable: break;
    }
    std::free(memory_[buffer]);
  }
}

CUdeviceptr World::Device(const Region& region) {
  CUdeviceptr& pointer = device_[region.buffer];
  std::lock_guard lock(mutex_);
  if (pointer == 0) CHECK(cuMemHostGetDevicePointer(&pointer, host_[region.buffer], 0));
  return pointer + region.offset;
}

CUstream World::StreamOf(const Operation& operation) const {
  // Two names of one stream.
  return operation.stream == kLegacy && operation.value % 2 == 0 ? nullptr : streams_[operation.stream];
}

void World::Compare(const std::string& where, int buffer, size_t offset, const unsigned char* found,
                    const unsigned char* expected, size_t bytes, const Model& model) {
  if (std::memcmp(found, expected, bytes) == 0) return;
  size_t first = bytes, count = 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (found[i] == expected[i]) continue;
    if (count++ == 0) first = i;
  }
  char text[256];
  std::snprintf(text, sizeof text, "%s: %zu bytes of %s differ, the first is byte %zu: %02x, expected %02x; written last by %s",
                where.c_str(), count, kBuffers[buffer].name, offset + first, found[first], expected[first],
                where == "at the end" ? model.Writer(buffer, offset + first).c_str() : "an operation before");
  std::lock_guard lock(mutex_);
  if (difference_.empty()) difference_ = text;
}

void World::HostAccess(const Operation& operation, const Model& model) {
  if (operation.to.buffer >= 0) {
    unsigned char* to = Host(operation.to);
    for (size_t i = 0; i < operation.width; ++i) to[i] = Pattern(operation.value, i);
  } else {
    Compare(Text(operation), operation.from.buffer, operation.from.offset, Host(operation.from), model.expected(operation).data(),
            operation.width, model);
  }
}

void World::Copy(const Operation& operation, CUstream stream) {
  const Region &to = operation.to, &from = operation.from;
  const bool to_host = IsHost(to.buffer), from_host = IsHost(from.buffer), async = operation.async;
  const size_t bytes = operation.width;
  if (operation.call == Call::kRows) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    from_host ? (void)(copy.srcHost = Host(from)) : (void)(copy.srcDevice = Device(from));
    copy.srcPitch = from.pitch;
    copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    to_host ? (void)(copy.dstHost = Host(to)) : (void)(copy.dstDevice = Device(to));
    copy.dstPitch = to.pitch;
    copy.WidthInBytes = operation.width;
    copy.Height = operation.rows;
    return async ? CHECK(cuMemcpy2DAsync(&copy, stream)) : CHECK(cuMemcpy2DUnaligned(&copy));
  }
  if (operation.call == Call::kSlices) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    from_host ? (void)(copy.srcHost = Host(from)) : (void)(copy.srcDevice = Device(from));
    copy.srcPitch = from.pitch;
    copy.srcHeight = operation.slices > 1 ? from.slice / from.pitch : operation.rows;
    copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    to_host ? (void)(copy.dstHost = Host(to)) : (void)(copy.dstDevice = Device(to));
    copy.dstPitch = to.pitch;
    copy.dstHeight = operation.slices > 1 ? to.slice / to.pitch : operation.rows;
    copy.WidthInBytes = operation.width;
    copy.Height = operation.rows;
    copy.Depth = operation.slices;
    return async ? CHECK(cuMemcpy3DAsync(&copy, stream)) : CHECK(cuMemcpy3D(&copy));
  }
  if (operation.call == Call::kDevicePointers) {
    return async ? CHECK(cuMemcpyDtoDAsync(Device(to), Device(from), bytes, stream))
                 : CHECK(cuMemcpyDtoD(Device(to), Device(from), bytes));
  }
  const auto address = [&](const Region& region) {
    return IsHost(region.buffer) ? reinterpret_cast<CUdeviceptr>(Host(region)) : Device(region);
  };
  if (InBatch(operation)) return CopyInBatch(operation, address(to), address(from), stream);
  if (operation.call == Call::kUnified || (to_host && from_host)) {
    return async ? CHECK(cuMemcpyAsync(address(to), address(from), bytes, stream))
                 : CHECK(cuMemcpy(address(to), address(from), bytes));
  }
  if (from_host) {
    return async ? CHECK(cuMemcpyHtoDAsync(Device(to), Host(from), bytes, stream))
                 : CHECK(cuMemcpyHtoD(Device(to), Host(from), bytes));
  }
  if (to_host) {
    return async ? CHECK(cuMemcpyDtoHAsync(Host(to), Device(from), bytes, stream))
                 : CHECK(cuMemcpyDtoH(Host(to), Device(from), bytes));
  }
  return async ? CHECK(cuMemcpyDtoDAsync(Device(to), Device(from), bytes, stream))
               : CHECK(cuMemcpyDtoD(Device(to), Device(from), bytes));
}

// In two parts, so that it is a batch. How parts of one are ordered among each other is open, and of no concern here.
void World::CopyInBatch(const Operation& operation, CUdeviceptr to, CUdeviceptr from, CUstream stream) {
  const size_t half = operation.width / 2;
  CUdeviceptr tos[] = {to + half, to}, froms[] = {from + half, from};
  size_t sizes[] = {operation.width - half, half};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  CHECK(cuMemcpyBatchAsync(tos, froms, sizes, half == 0 ? 1 : 2, &attributes, &first, 1, stream));
}

void World::Set(const Operation& operation, CUstream stream) {
  const CUdeviceptr to = Device(operation.to);
  const size_t count = operation.width / operation.element_bytes, pitch = operation.to.pitch, rows = operation.rows;
  const bool async = operation.async;
  const auto byte = static_cast<unsigned char>(operation.value);
  const auto half = static_cast<unsigned short>(operation.value);
  const unsigned word = operation.value;
  if (operation.call == Call::kWriteValue) return CHECK(cuStreamWriteValue32(stream, to, word, 0));
  if (operation.call == Call::kRows) {
    switch (operation.element_bytes) {
      case 1:
        return async ? CHECK(cuMemsetD2D8Async(to, pitch, byte, count, rows, stream))
                     : CHECK(cuMemsetD2D8(to, pitch, byte, count, rows));
      case 2:
        return async ? CHECK(cuMemsetD2D16Async(to, pitch, half, count, rows, stream))
                     : CHECK(cuMemsetD2D16(to, pitch, half, count, rows));
      default:
        return async ? CHECK(cuMemsetD2D32Async(to, pitch, word, count, rows, stream))
                     : CHECK(cuMemsetD2D32(to, pitch, word, count, rows));
    }
  }
  switch (operation.element_bytes) {
    case 1: return async ? CHECK(cuMemsetD8Async(to, byte, count, stream)) : CHECK(cuMemsetD8(to, byte, count));
    case 2: return async ? CHECK(cuMemsetD16Async(to, half, count, stream)) : CHECK(cuMemsetD16(to, half, count));
    default: return async ? CHECK(cuMemsetD32Async(to, word, count, stream)) : CHECK(cuMemsetD32(to, word, count));
  }
}

void World::Launch(const Operation& operation, CUstream stream) {
  const Region& other = operation.from.buffer < 0 ? operation.to : operation.from;
  CUdeviceptr to = Device(operation.to), from = Device(other);
  auto count = static_cast<unsigned>(operation.rows), to_step = static_cast<unsigned>(operation.to.pitch),
       from_step = static_cast<unsigned>(other.pitch), value = static_cast<unsigned>(operation.value);
  uint64_t wait_ns = uint64_t{wait_us_} * 1000;
  void* parameters[] = {&to, &from, &count, &to_step, &from_step, &value, &wait_ns};
  CHECK(cuLaunchKernel(kernel_, 1, 1, 1, count, 1, 1, 0, stream, parameters, nullptr));
}

void World::LaunchGraph(const Operation& operation) {
  const CUstream capture = captures_[operation.thread];
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  std::lock_guard alone(capture_mutex_);
  CHECK(cuStreamBeginCapture(capture, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (const Operation& node : operation.nodes) {
    if (node.kind == Kind::kCopy) Copy(node, capture);
    if (node.kind == Kind::kSet) Set(node, capture);
    if (node.kind == Kind::kKernel) Launch(node, capture);
  }
  CHECK(cuStreamEndCapture(capture, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuGraphLaunch(exec, StreamOf(operation)));
  std::lock_guard lock(mutex_);
  graphs_.push_back(exec);
}

void World::Flag(const Operation& operation, CUstream stream) {
  const CUdeviceptr flag = flags_ + static_cast<size_t>(operation.event) * sizeof(uint32_t);
  if (operation.kind == Kind::kRaise) return CHECK(cuStreamWriteValue32(stream, flag, operation.value, 0));
  CHECK(cuStreamWaitValue32(stream, flag, operation.value, CU_STREAM_WAIT_VALUE_GEQ));
}

void World::Prefetch(const Operation& operation, CUstream stream) {
  const bool to_host = operation.value % 2 == 1;
  const CUmemLocation location{to_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CHECK(cuMemPrefetchAsync(Device(operation.from), operation.width, location, 0, stream));
}

void World::WorkElsewhere(const Operation& operation, const Model& model) {
  CHECK(cuCtxSynchronize());
  std::vector<Bytes> found;
  CHECK(other_->Work(operation.nodes, &found));
  auto bytes = found.begin();
  for (const Operation& node : operation.nodes) {
    if (node.kind != Kind::kHostRead) continue;
    Compare("in the second process, " + Text(node), kShared, node.from.offset, (bytes++)->data(), model.expected(node).data(),
            node.width, model);
  }
}

void World::Do(const Operation& operation, const Model& model) {
  const CUstream stream = StreamOf(operation);
  const CUevent event = events_[operation.event];
  switch (operation.kind) {
    case Kind::kCopy: return Copy(operation, stream);
    case Kind::kSet: return Set(operation, stream);
    case Kind::kKernel: return Launch(operation, stream);
    case Kind::kHostFunctionWrite:
    case Kind::kHostFunctionRead: {
      auto* call = new HostCall{this, &operation, &model};
      const auto run = [](void* data) {
        auto* call = static_cast<HostCall*>(data);
        call->world->HostAccess(*call->operation, *call->model);
        delete call;
      };
      return CHECK(cuLaunchHostFunc(stream, run, call));
    }
    case Kind::kHostWrite:
    case Kind::kHostRead: return HostAccess(operation, model);
    case Kind::kRecord: return CHECK(cuEventRecord(event, stream));
    case Kind::kWaitEvent: return CHECK(cuStreamWaitEvent(stream, event, 0));
    case Kind::kSyncStream: return CHECK(cuStreamSynchronize(stream));
    case Kind::kSyncEvent: return CHECK(cuEventSynchronize(event));
    case Kind::kSyncContext: {
      std::lock_guard alone(capture_mutex_);
      return CHECK(cuCtxSynchronize());
    }
    case Kind::kPollStream:
    case Kind::kPollEvent: {
      const auto ask = [&] { return operation.kind == Kind::kPollStream ? cuStreamQuery(stream) : cuEventQuery(event); };
      CUresult answer = ask();
      for (; answer == CUDA_ERROR_NOT_READY; answer = ask()) std::this_thread::yield();
      return Check(answer, "query");
    }
    case Kind::kRaise:
    case Kind::kWaitRaised: return Flag(operation, stream);
    case Kind::kPrefetch: return Prefetch(operation, stream);
    case Kind::kOther: return WorkElsewhere(operation, model);
    case Kind::kGraph: return LaunchGraph(operation);
    case Kind::kFork:
    case Kind::kJoin: return;
  }
}

void World::RunThread(const Program& program, const Model& model, size_t begin, size_t end, int thread) {
  for (size_t i = begin; i < end; ++i) {
    if (program.operations[i].thread == thread) Do(program.operations[i], model);
  }
}

void World::Begin(const Program& program, const std::vector<bool>& used) {
  for (int buffer = 0; buffer < kBufferCount; ++buffer) {
    if (!used[buffer]) continue;
    const Bytes first = FirstContent(program, buffer);
    if (IsHost(buffer) || (IsManaged(buffer) && program.content % 2 == 0)) {
      std::memcpy(host_[buffer], first.data(), bytes_);
    } else {
      CHECK(cuMemcpyHtoD(device_[buffer], first.data(), bytes_));
    }
  }
  CHECK(cuMemsetD32(flags_, 0, kFlagCount));
  CHECK(cuCtxSynchronize());
}

std::string World::Run(const Program& program, const Model& model) {
  program_ = &program;
  difference_.clear();
  std::vector<bool> used(kBufferCount);
  const auto use = [&](const Operation& operation) {
    for (int buffer : {operation.to.buffer, operation.from.buffer}) {
      if (buffer >= 0) used[buffer] = true;
    }
  };
  size_t fork = program.operations.size(), join = program.operations.size();
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& operation = program.operations[i];
    use(operation);
    for (const Operation& node : operation.nodes) use(node);
    if (operation.kind == Kind::kFork) fork = i;
    if (operation.kind == Kind::kJoin) join = i;
  }
  Begin(program, used);
  RunThread(program, model, 0, fork, 0);
  if (fork != join) {
    std::thread second([&] {
      CHECK(cuCtxSetCurrent(context_));
      RunThread(program, model, fork, join, 1);
    });
    RunThread(program, model, fork, join, 0);
    second.join();
  }
  RunThread(program, model, join, program.operations.size(), 0);
  CHECK(cuCtxSynchronize());
  Bytes found(bytes_);
  for (int buffer = 0; buffer < kBufferCount; ++buffer) {
    if (!used[buffer]) continue;
    const bool by_host = IsHost(buffer) || (IsManaged(buffer) && program.content / 2 % 2 == 0);
    if (!by_host) CHECK(cuMemcpyDtoH(found.data(), device_[buffer], bytes_));
    Compare("at the end", buffer, 0, by_host ? host_[buffer] : found.data(), model.buffer(buffer).data(), bytes_, model);
  }
  for (CUgraphExec graph : graphs_) CHECK(cuGraphExecDestroy(graph));
  graphs_.clear();
  program_ = nullptr;
  return difference_;
}

}  // namespace order_programs
