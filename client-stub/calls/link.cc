// The linker: inputs are sent as blobs; the linked cubin is fetched and kept until the link is destroyed, as natively.

#include <cuda.h>

#include <cstring>
#include <memory>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/code/blob.h"
#include "client-stub/code/image_load.h"
#include "client-stub/code/link_table.h"
#include "client-stub/session/client.h"
#include "generated/client_custom.h"
#include "generated/messages/module.h"

namespace tessera {
namespace {

template <typename Reply>
CUresult TakeLogs(Call& call, const std::shared_ptr<JitLink>& link, const Reply& reply) {
  if (link != nullptr) {
    link->jit.WriteOutputs(reply.info_log, reply.error_log, reply.wall_time_ms, reply.threads_per_block);
  }
  return call.Fail(static_cast<CUresult>(reply.result));
}

template <typename Request, typename Reply>
CUresult AddBytes(Call& call, CUlinkState state, CUjitInputType type, std::span<const std::byte> bytes, const char* name,
                  unsigned count, const CUjit_option* options, void** values) {
  Request request;
  request.state = call.Use(HandleKind::kLinkState, state);
  if (!call.ok()) return call.result();
  ClientJitOptions jit;
  if (bytes.empty() || !jit.Read(count, options, values)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  uint64_t blob = 0;
  if (CUresult result = SendBlob(call, bytes, &blob); result != CUDA_SUCCESS) return call.Fail(result);
  request.type = type;
  request.blob = blob;
  request.name = name != nullptr ? name : "";
  request.options.Borrow(jit.options());
  request.values.Borrow(jit.values());
  Reply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  return TakeLogs(call, Links().Find(request.state), reply);
}

}  // namespace

CUresult Custom_cuLinkCreate_v2(Call& call, unsigned int numOptions, CUjit_option* options, void** optionValues,
                                CUlinkState* stateOut) {
  if (!call.ok()) return call.result();
  auto link = std::make_shared<JitLink>();
  if (stateOut == nullptr || !link->jit.Read(numOptions, options, optionValues)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  cuLinkCreate_v2Request request;
  request.state = call.Mint(HandleKind::kLinkState);
  if (!call.ok()) return call.result();
  request.options.Borrow(link->jit.options());
  request.values.Borrow(link->jit.values());
  if (CUresult result = call.Sync(request); result != CUDA_SUCCESS) return result;
  Links().Insert(request.state, std::move(link));
  *stateOut = reinterpret_cast<CUlinkState>(request.state.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuLinkAddData_v2(Call& call, CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                                 unsigned int numOptions, CUjit_option* options, void** optionValues) {
  if (!call.ok()) return call.result();
  if (data == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return AddBytes<cuLinkAddData_v2Request, cuLinkAddData_v2Reply>(
      call, state, type, std::span(static_cast<const std::byte*>(data), size), name, numOptions, options, optionValues);
}

CUresult Custom_cuLinkAddFile_v2(Call& call, CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                                 CUjit_option* options, void** optionValues) {
  if (!call.ok()) return call.result();
  if (path == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::vector<std::byte> file;
  if (CUresult result = ReadImageFile(path, &file); result != CUDA_SUCCESS) return call.Fail(result);
  // ReadImageFile puts a NUL behind the file, which PTX needs and no other input may have.
  const size_t bytes = type == CU_JIT_INPUT_PTX ? file.size() : file.size() - 1;
  return AddBytes<cuLinkAddFile_v2Request, cuLinkAddFile_v2Reply>(call, state, type, std::span(file).first(bytes), path,
                                                                  numOptions, options, optionValues);
}

CUresult Custom_cuLinkComplete(Call& call, CUlinkState state, void** cubinOut, size_t* sizeOut) {
  if (!call.ok()) return call.result();
  cuLinkCompleteRequest request;
  request.state = call.Use(HandleKind::kLinkState, state);
  if (!call.ok()) return call.result();
  if (cubinOut == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const std::shared_ptr<JitLink> link = Links().Find(request.state);
  if (link == nullptr) return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  cuLinkCompleteReply reply;
  if (CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  const uint64_t blob = reply.blob;
  const uint64_t size_bytes = reply.size_bytes;
  if (CUresult result = TakeLogs(call, link, reply); result != CUDA_SUCCESS) return result;
  if (CUresult result = FetchBlob(call, blob, size_bytes, &link->cubin); result != CUDA_SUCCESS) return call.Fail(result);
  *cubinOut = link->cubin.data();
  if (sizeOut != nullptr) *sizeOut = link->cubin.size();
  return CUDA_SUCCESS;
}

CUresult Custom_cuLinkDestroy(Call& call, CUlinkState state) {
  if (!call.ok()) return call.result();
  cuLinkDestroyRequest request;
  request.state = call.Free(HandleKind::kLinkState, state);
  if (!call.ok()) return call.result();
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) Links().Erase(request.state);
  return result;
}

}  // namespace tessera
