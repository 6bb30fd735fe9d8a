// Kernel launches and the attributes of functions.
//
// A launch is asynchronous within what the server says that the kernel takes, or what the driver has accepted before for the same
// kernel; any beyond waits for the driver's verdict so that its own code is returned.

#include <cuda.h>

#include <cstring>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/call/describe_function.h"
#include "client-stub/code/function_info.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/code/launch_attributes.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/graphs/device_graphs.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "generated/client_custom.h"
#include "generated/messages/launch.h"

namespace tessera {
namespace {

struct Configuration {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CUstream stream;
};

// Blocks and threads that no device accepts are refused here with the driver's code (cuLaunchKernel: CUDA_ERROR_INVALID_VALUE).
bool IsEmpty(const Configuration& c) {
  return c.grid[0] == 0 || c.grid[1] == 0 || c.grid[2] == 0 || c.block[0] == 0 || c.block[1] == 0 || c.block[2] == 0;
}

// The product can exceed 32 bits for a nonsense configuration; those are never covered by an envelope.
uint32_t ThreadsOf(const Configuration& c) {
  const uint64_t threads = uint64_t{c.block[0]} * c.block[1] * c.block[2];
  return threads > 1024 || c.block[2] > 64 ? UINT32_MAX : static_cast<uint32_t>(threads);
}

// Limits of the grid itself: 2^31-1 by 65535 by 65535 (CUDA programming guide, "Technical Specifications per Compute
// Capability"). A launch beyond them is sent synchronously and the driver refuses it.
bool GridIsOrdinary(const Configuration& c) { return c.grid[0] <= 0x7FFFFFFFu && c.grid[1] <= 65535 && c.grid[2] <= 65535; }

// The launch as far as its resources go: the grid counts only where all blocks must be resident.
uint64_t LaunchHash(const Configuration& c, bool with_grid, uint64_t attributes_hash) {
  const uint32_t shape[] = {c.block[0],
                            c.block[1],
                            c.block[2],
                            c.shared_bytes,
                            with_grid ? c.grid[0] : 0,
                            with_grid ? c.grid[1] : 0,
                            with_grid ? c.grid[2] : 0};
  return HashOf(std::as_bytes(std::span(shape)), attributes_hash);
}

// The event that a launch with this attribute records; null: it records none.
CUevent* EventOf(CUlaunchAttribute& attribute) {
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: return &attribute.value.programmaticEvent.event;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: return &attribute.value.launchCompletionEvent.event;
    default: return nullptr;
  }
}

// Replaces the handles inside launch attributes by their ids.
CUresult TranslateAttributes(Call& call, const CUlaunchConfig& config, std::vector<CUlaunchAttribute>* attributes) {
  attributes->resize(config.numAttrs);
  for (unsigned i = 0; i < config.numAttrs; ++i) (*attributes)[i] = WithoutPadding(config.attrs[i]);
  for (CUlaunchAttribute& attribute : *attributes) {
    CUevent* event = EventOf(attribute);
    if (event == nullptr) continue;
    const HandleId id = call.Use(HandleKind::kEvent, *event);
    if (!call.ok()) return call.result();
    *event = reinterpret_cast<CUevent>(id.value());
  }
  return CUDA_SUCCESS;
}

bool WantsCooperative(std::span<const CUlaunchAttribute> attributes) {
  for (const CUlaunchAttribute& attribute : attributes) {
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0) return true;
  }
  return false;
}

// As DescribeFunction; of a function that is known and live without any lock.
FunctionInfo* KnownFunction(Call& call, CUfunction f) {
  const HandleId id(reinterpret_cast<uint64_t>(f));
  FunctionInfo* const known = Functions().FindDescribed(id);
  return known != nullptr && call.session().handles().IsLive(id) ? known : DescribeFunction(call, f);
}

template <typename Request>
CUresult Ask(Call& call, const Request& request, std::span<CUlaunchAttribute>) {
  return WorkOnAnything(call).Sync(request);
}

CUresult Ask(Call& call, const cuLaunchKernelExRequest& request, std::span<CUlaunchAttribute> attributes) {
  cuLaunchKernelExReply reply;
  if (const CUresult result = WorkOnAnything(call).Sync(request, &reply); result != CUDA_SUCCESS) return result;
  size_t answered = 0;
  for (CUlaunchAttribute& attribute : attributes) {
    if (!AsksForDeviceNode(attribute)) continue;
    if (answered == reply.device_nodes.size()) return call.MalformedReply();
    if (reply.device_nodes[answered] != 0) DeviceGraphs::Process().NoteDeviceNode();
    attribute.value.deviceUpdatableKernelNode.devNode = reinterpret_cast<CUgraphDeviceNode>(reply.device_nodes[answered++]);
  }
  return CUDA_SUCCESS;
}

// A launch of which the driver's verdict is not known yet.
template <typename Request>
CUresult LaunchAndAsk(Call& call, const Request& request, FunctionInfo::Shared& shared, const Configuration& config,
                      std::span<CUlaunchAttribute> attributes, uint32_t threads, bool all_resident) {
  const uint64_t attributes_hash = HashOf(request.attributes);
  const CUresult result = Ask(call, request, attributes);
  if (result != CUDA_SUCCESS) return result;
  shared.accepted.Add(LaunchHash(config, all_resident, attributes_hash));
  if (!all_resident) {
    shared.plain.Accept(threads, config.shared_bytes);
    if (!attributes.empty()) shared.accepted.Add(attributes_hash);
  }
  return result;
}

template <typename Request>
CUresult Launch(Call& call, CUfunction f, const Configuration& config, std::span<CUlaunchAttribute> attributes, bool cooperative,
                void* const* kernel_params, void* const* extra) {
  FunctionInfo* function = KnownFunction(call, f);
  if (function == nullptr) [[unlikely]]
    return call.result();
  const HandleId stream = call.UseStream(config.stream);
  if (!call.ok()) return call.result();
  // The driver refuses a function in a stream of another context, and the launch may not wait to hear it. A kernel is at home in
  // all.
  if (!function->context.is_null() && call.StreamOwner(stream) != function->context) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  if (IsEmpty(config)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<std::byte>& packed = call.thread().parameters;
  if (CUresult result = PackKernelParams(*function, kernel_params, extra, &packed); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }

  Request request;
  request.function = function->handle;
  request.grid_x = config.grid[0];
  request.grid_y = config.grid[1];
  request.grid_z = config.grid[2];
  request.block_x = config.block[0];
  request.block_y = config.block[1];
  request.block_z = config.block[2];
  request.shared_bytes = config.shared_bytes;
  request.stream = stream;
  request.cooperative = cooperative;
  request.parameters = packed;
  request.attributes = std::as_bytes(attributes);

  FunctionInfo::Shared& shared = *function->shared;
  const uint32_t threads = ThreadsOf(config);
  const bool sane = GridIsOrdinary(config) && threads != UINT32_MAX && ClustersDivideGrid(attributes, config.grid) &&
                    !AskForDeviceNode(attributes);
  // The blocks of a cooperative launch must all fit the device at once: nothing but the same launch is known to do so.
  const bool all_resident = cooperative || WantsCooperative(attributes);
  const auto alike = [&] {
    return shared.plain.Covers(threads, config.shared_bytes) &&
           (attributes.empty() || shared.accepted.Contains(HashOf(request.attributes)));
  };
  const auto same = [&] { return shared.accepted.Contains(LaunchHash(config, all_resident, HashOf(request.attributes))); };
  const bool accepted = sane && ((!all_resident && alike()) || same());
  if (accepted) [[likely]]
    return WorkOnAnything(call).Async(request);
  return LaunchAndAsk(call, request, shared, config, attributes, threads, all_resident);
}

}  // namespace

CUresult Custom_cuLaunchKernel(Call& call, CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                               unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
                               CUstream hStream, void** kernelParams, void** extra) {
  if (!call.ok()) return call.result();
  const Configuration config{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream};
  return Launch<cuLaunchKernelRequest>(call, f, config, {}, false, kernelParams, extra);
}

CUresult Custom_cuLaunchCooperativeKernel(Call& call, CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                                          unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
                                          CUstream hStream, void** kernelParams) {
  if (!call.ok()) return call.result();
  const Configuration config{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream};
  return Launch<cuLaunchCooperativeKernelRequest>(call, f, config, {}, true, kernelParams, nullptr);
}

CUresult Custom_cuLaunchKernelEx(Call& call, const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  if (!call.ok()) return call.result();
  if (config == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (config->numAttrs > 0 && config->attrs == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Configuration plain{{config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            config->sharedMemBytes,
                            config->hStream};
  std::vector<CUlaunchAttribute>& attributes = call.thread().attributes;
  if (CUresult result = TranslateAttributes(call, *config, &attributes); result != CUDA_SUCCESS) return call.Fail(result);
  const CUresult result = Launch<cuLaunchKernelExRequest>(call, f, plain, attributes, false, kernelParams, extra);
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (const CUevent* event = EventOf(attributes[i])) call.session().polls().Forget(reinterpret_cast<uint64_t>(*event));
    if (result == CUDA_SUCCESS && AsksForDeviceNode(attributes[i])) {
      config->attrs[i].value.deviceUpdatableKernelNode.devNode = attributes[i].value.deviceUpdatableKernelNode.devNode;
    }
  }
  return result;
}

// Every launch of the list on a device of its own, of the same kernel in the same shape: the driver checks that. Which
// streams a launch waits for (`flags`) is the driver's to do as well, so the list travels as a whole.
CUresult Custom_cuLaunchCooperativeKernelMultiDevice(Call& call, CUDA_LAUNCH_PARAMS* launchParamsList, unsigned int numDevices,
                                                     unsigned int flags) {
  if (!call.ok()) return call.result();
  if (launchParamsList == nullptr || numDevices == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (numDevices > static_cast<unsigned>(call.session().devices().count())) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<HandleId> functions, streams;
  std::vector<uint32_t> shapes, parameter_bytes;
  std::vector<std::byte> parameters, packed;
  for (const CUDA_LAUNCH_PARAMS& launch : std::span(launchParamsList, numDevices)) {
    FunctionInfo* function = DescribeFunction(call, launch.function);
    if (function == nullptr) return call.result();
    // The special streams belong to no device of their own: documented as not allowed here.
    if (launch.hStream == nullptr || launch.hStream == CU_STREAM_LEGACY || launch.hStream == CU_STREAM_PER_THREAD) {
      return call.Fail(CUDA_ERROR_INVALID_HANDLE);
    }
    streams.push_back(call.UseStream(launch.hStream));
    if (!call.ok()) return call.result();
    if (CUresult result = PackKernelParams(*function, launch.kernelParams, nullptr, &packed); result != CUDA_SUCCESS) {
      return call.Fail(result);
    }
    functions.push_back(function->handle);
    shapes.insert(shapes.end(), {launch.gridDimX, launch.gridDimY, launch.gridDimZ, launch.blockDimX, launch.blockDimY,
                                 launch.blockDimZ, launch.sharedMemBytes});
    parameter_bytes.push_back(static_cast<uint32_t>(packed.size()));
    parameters.insert(parameters.end(), packed.begin(), packed.end());
  }
  cuLaunchCooperativeKernelMultiDeviceRequest request;
  request.functions.Borrow(functions);
  request.streams.Borrow(streams);
  request.shapes.Borrow(shapes);
  request.parameter_bytes.Borrow(parameter_bytes);
  request.parameters = parameters;
  request.flags = flags;
  return WorkOnAnything(call).Sync(request);
}

CUresult Custom_cuFuncGetAttribute(Call& call, int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  if (!call.ok()) return call.result();
  if (pi == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* function = DescribeFunction(call, hfunc);
  if (function == nullptr) return call.result();
  const QueryCache::Key key{call.info().id, {attrib}};
  if (const auto known = function->shared->queries.Find(key)) {
    *pi = static_cast<int>(*known);
    return CUDA_SUCCESS;
  }
  cuFuncGetAttributeRequest request;
  request.attrib = attrib;
  request.hfunc = function->handle;
  cuFuncGetAttributeReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  function->shared->queries.Insert(key, reply.pi);
  *pi = reply.pi;
  return CUDA_SUCCESS;
}

CUresult Custom_cuFuncSetAttribute(Call& call, CUfunction hfunc, CUfunction_attribute attrib, int value) {
  if (!call.ok()) return call.result();
  FunctionInfo* function = DescribeFunction(call, hfunc);
  if (function == nullptr) return call.result();
  if (function->shared->AlreadySet(attrib, kAnyDevice, value)) return CUDA_SUCCESS;
  cuFuncSetAttributeRequest request;
  request.hfunc = function->handle;
  request.attrib = attrib;
  request.value = value;
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) function->shared->RememberSet(attrib, kAnyDevice, value);
  return result;
}

CUresult Custom_cuFuncGetName(Call& call, const char** name, CUfunction hfunc) {
  if (!call.ok()) return call.result();
  if (name == nullptr || hfunc == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* function = DescribeFunction(call, hfunc);
  if (function == nullptr) return call.result();
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult Custom_cuFuncGetParamInfo(Call& call, CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  if (!call.ok()) return call.result();
  FunctionInfo* function = DescribeFunction(call, func);
  if (function == nullptr) return call.result();
  if (paramOffset == nullptr || paramIndex >= function->layout.size()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *paramOffset = function->layout[paramIndex].offset;
  if (paramSize != nullptr) *paramSize = function->layout[paramIndex].size;
  return CUDA_SUCCESS;
}

}  // namespace tessera
