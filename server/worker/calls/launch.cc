// Kernel launches: rebuilds what the driver takes from the one packed message.

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "generated/driver_table.h"
#include "generated/messages/launch.h"
#include "generated/server_custom.h"
#include "server/worker/await_turn.h"
#include "server/worker/call_context.h"
#include "server/worker/code/launch_attributes.h"
#include "server/worker/code/layout_table.h"
#include "server/worker/completion.h"
#include "server/worker/memory/local_memory.h"
#include "server/worker/object_table.h"
#include "server/worker/recent_launches.h"
#include "server/worker/timed_launch.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Pointers into a copy of the packed parameters, in the order of the layout. In the record, which is this process' own, they have
// no alignment. In the call's scratch.
class ParameterArray {
 public:
  // False, and the call has ended, when the client packed another number of bytes than the layout has.
  bool Build(CallContext& call, const KernelLayout& layout, std::span<const std::byte> packed) {
    if (packed.size() != layout.bytes) return call.Malformed(), false;
    const size_t count = layout.offsets_and_sizes.size() / 2;
    if (count == 0) return true;
    auto* const bytes = static_cast<std::byte*>(call.Scratch(packed.size()));
    pointers_ = call.ScratchArray<void*>(count);
    if (!call.ok()) return call.Finish(call.error()), false;
    std::memcpy(bytes, packed.data(), packed.size());
    for (size_t i = 0; i < count; ++i) pointers_[i] = bytes + layout.offsets_and_sizes[2 * i];
    return true;
  }
  void** data() { return pointers_; }

 private:
  void** pointers_ = nullptr;
};

// Of launches that are as long as one another, as a rule.
template <typename Request>
void AwaitLaunch(CallContext& call, CUstream stream, const Request& request) {
  AwaitLaunchTurn(call, stream,
                  {request.function.value(), request.grid_x, request.grid_y, request.grid_z, request.block_x, request.block_y,
                   request.block_z, request.shared_bytes});
}

// What every form of launch needs, looked up and checked. ok() of the call tells whether it is usable.
struct Prepared {
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  ParameterArray parameters;
  const char* name = "";     // of the kernel
  uint32_t local_bytes = 0;  // of each thread
};

template <typename Request>
bool Prepare(CallContext& call, const Request& request, Prepared* prepared) {
  CUresult error = CUDA_SUCCESS;
  const KernelLayout* layout = call.worker().parts().layouts().Find(request.function, &error);
  if (layout == nullptr) {
    call.Finish(error);
    return false;
  }
  call.worker().completion().NoteKernel();
  call.worker().recent_launches().Note(layout->name, request);
  prepared->name = layout->name;
  prepared->local_bytes = layout->local_bytes;
  prepared->function = call.Use<CUfunction>(request.function);
  prepared->stream = call.UseStream(request.stream);
  if (!call.ok()) {
    call.Finish(call.error());
    return false;
  }
  if (!prepared->parameters.Build(call, *layout, request.parameters)) return false;
  AwaitLaunch(call, prepared->stream, request);
  return true;
}

// `work`: the driver's call.
template <typename Work>
CUresult Launch(CallContext& call, const Prepared& launch, const Work& work) {
  LocalLaunch local;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  do {
    if (launch.local_bytes != 0 && !local.Begin(call, launch.stream, launch.local_bytes)) [[unlikely]]
      break;
    result = TimedLaunch(call, launch.name, launch.stream, work);
  } while (launch.local_bytes != 0 && local.End(call, result));
  return Launched(call, result);
}

// In the context of `stream`.
void NoteNeed(CallContext& call, CUstream stream, uint64_t local_bytes, LocalNeeds* needs) {
  CUcontext context = nullptr;
  if (!call.ok() || call.driver().cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return;
  const HandleId id = call.worker().objects().HandleOf(HandleKind::kContext, reinterpret_cast<uint64_t>(context));
  if (!id.is_null()) (*needs)[id] = std::max((*needs)[id], local_bytes);
}

}  // namespace

void Do_cuLaunchKernel(CallContext& call, const cuLaunchKernelRequest& request) {
  Prepared launch;
  if (!Prepare(call, request, &launch)) return;
  call.Finish(Launch(call, launch, [&] {
    return call.driver().cuLaunchKernel(launch.function, request.grid_x, request.grid_y, request.grid_z, request.block_x,
                                        request.block_y, request.block_z, request.shared_bytes, launch.stream,
                                        launch.parameters.data(), nullptr);
  }));
}

void Do_cuLaunchCooperativeKernel(CallContext& call, const cuLaunchCooperativeKernelRequest& request) {
  Prepared launch;
  if (!Prepare(call, request, &launch)) return;
  call.Finish(Launch(call, launch, [&] {
    return call.driver().cuLaunchCooperativeKernel(launch.function, request.grid_x, request.grid_y, request.grid_z,
                                                   request.block_x, request.block_y, request.block_z, request.shared_bytes,
                                                   launch.stream, launch.parameters.data());
  }));
}

void Do_cuLaunchKernelEx(CallContext& call, const cuLaunchKernelExRequest& request) {
  LaunchAttributes attributes;
  if (!attributes.Set(call, request.attributes)) return;
  Prepared launch;
  if (!Prepare(call, request, &launch)) return;
  CUlaunchConfig config{};
  config.gridDimX = request.grid_x;
  config.gridDimY = request.grid_y;
  config.gridDimZ = request.grid_z;
  config.blockDimX = request.block_x;
  config.blockDimY = request.block_y;
  config.blockDimZ = request.block_z;
  config.sharedMemBytes = request.shared_bytes;
  config.hStream = launch.stream;
  config.attrs = attributes.data();
  config.numAttrs = attributes.count();
  const CUresult result = Launch(
      call, launch, [&] { return call.driver().cuLaunchKernelEx(&config, launch.function, launch.parameters.data(), nullptr); });
  if (!call.wants_reply()) return call.Finish(result);
  const std::vector<uint64_t> nodes = attributes.DeviceNodes();
  cuLaunchKernelExReply reply;
  reply.device_nodes.Borrow(nodes);
  call.Finish(result, reply);
}

void Do_cuLaunchCooperativeKernelMultiDevice(CallContext& call, const cuLaunchCooperativeKernelMultiDeviceRequest& request) {
  const size_t count = request.functions.size();
  if (request.streams.size() != count || request.shapes.size() != 7 * count || request.parameter_bytes.size() != count) {
    return call.Malformed();
  }
  std::vector<ParameterArray> parameters(count);
  std::vector<CUDA_LAUNCH_PARAMS> launches(count);
  LocalNeeds needs;
  std::span<const std::byte> packed = request.parameters;
  for (size_t i = 0; i < count; ++i) {
    CUresult error = CUDA_SUCCESS;
    const KernelLayout* layout = call.worker().parts().layouts().Find(request.functions[i], &error);
    if (layout == nullptr) return call.Finish(error);
    const uint32_t bytes = request.parameter_bytes[i];
    if (bytes > packed.size()) return call.Malformed();
    if (!parameters[i].Build(call, *layout, packed.first(bytes))) return;
    packed = packed.subspan(bytes);
    CUDA_LAUNCH_PARAMS& launch = launches[i];
    launch.function = call.Use<CUfunction>(request.functions[i]);
    launch.hStream = call.UseStream(request.streams[i]);
    if (layout->local_bytes != 0) NoteNeed(call, launch.hStream, layout->local_bytes, &needs);
    const std::span shape = std::span(request.shapes.data(), request.shapes.size()).subspan(7 * i, 7);
    launch.gridDimX = shape[0];
    launch.gridDimY = shape[1];
    launch.gridDimZ = shape[2];
    launch.blockDimX = shape[3];
    launch.blockDimY = shape[4];
    launch.blockDimZ = shape[5];
    launch.sharedMemBytes = shape[6];
    launch.kernelParams = parameters[i].data();
  }
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuLaunchCooperativeKernelMultiDevice == nullptr) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  call.worker().gate().CountKernel();
  if (count > 0) AwaitTurn(call, launches[0].hStream, {request.functions[0].value(), count});
  call.Finish(WithLocalMemory(call, needs, [&] {
    return call.driver().cuLaunchCooperativeKernelMultiDevice(launches.data(), static_cast<unsigned>(count), request.flags);
  }));
}

void Do_cuFuncGetName(CallContext& call, const cuFuncGetNameRequest& request) {
  const char* name = nullptr;
  CUfunction function = call.Use<CUfunction>(request.hfunc);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuFuncGetName == nullptr) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  const CUresult result = call.driver().cuFuncGetName(&name, function);
  cuFuncGetNameReply reply;
  if (result == CUDA_SUCCESS && name != nullptr) reply.name = name;
  call.Finish(result, reply);
}

// Name and layout together: what a client asks about a function that came from an enumeration.
void Do_cuFuncGetParamInfo(CallContext& call, const cuFuncGetParamInfoRequest& request) {
  const char* name = nullptr;
  CUfunction function = call.Use<CUfunction>(request.func);
  if (!call.ok()) return call.Finish(call.error());
  CUresult result = CUDA_SUCCESS;
  const KernelLayout* layout = call.worker().parts().layouts().Find(request.func, &result);
  if (layout == nullptr) return call.Finish(result);
  if (call.driver().cuFuncGetName != nullptr) result = call.driver().cuFuncGetName(&name, function);
  cuFuncGetParamInfoReply reply;
  if (result == CUDA_SUCCESS && name != nullptr) reply.name = name;
  layout->Describe(&reply);
  call.Finish(result, reply);
}

}  // namespace tessera
