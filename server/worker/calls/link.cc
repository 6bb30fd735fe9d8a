// The linker (cuLink*): inputs arrive as blobs, the cubin leaves as one, logs travel with every reply. Helper threads come here,
// and have one thread make the driver's calls (code/jit_links.h).

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "generated/driver_table.h"
#include "generated/messages/module.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/code/blob_store.h"
#include "server/worker/code/jit_links.h"
#include "server/worker/code/jit_options.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

template <typename Reply>
void FinishWithLogs(CallContext& call, CUresult result, HandleId state, Reply reply) {
  std::string info_log;
  std::string error_log;
  if (const JitOptions* options = call.worker().parts().jit_links().Find(state)) {
    info_log = options->info_log();
    error_log = options->error_log();
    reply.wall_time_ms = options->wall_time_ms();
    reply.threads_per_block = options->threads_per_block();
  }
  reply.result = result;
  reply.info_log = info_log;
  reply.error_log = error_log;
  call.Finish(CUDA_SUCCESS, reply);
}

template <typename Reply, typename Request>
void AddData(CallContext& call, const Request& request) {
  CUlinkState state = call.Use<CUlinkState>(request.state);
  if (!call.ok()) return call.Finish(call.error());
  const Result<BlobStore::Bytes> taken = call.worker().parts().blobs().Take(request.blob);
  if (taken.status().code() == StatusCode::kResourceExhausted) return call.Finish(CUDA_ERROR_OUT_OF_MEMORY);
  if (!taken.ok() || taken.value()->size() == 0) return call.Malformed();
  const BlobStore::Bytes& bytes = taken.value();
  JitOptions options;
  if (!options.Set(request.options, request.values)) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  const std::string name(request.name);
  const CUresult result = call.worker().parts().jit_links().OnThread(call.worker(), [&] {
    return call.driver().cuLinkAddData_v2(state, static_cast<CUjitInputType>(request.type), const_cast<std::byte*>(bytes->data()),
                                          bytes->size(), name.c_str(), options.count(), options.options(), options.values());
  });
  FinishWithLogs(call, result, request.state, Reply());
}

}  // namespace

void Do_cuLinkCreate_v2(CallContext& call, const cuLinkCreate_v2Request& request) {
  auto options = std::make_unique<JitOptions>();
  if (!options->Set(request.options, request.values)) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  CUlinkState state = nullptr;
  const CUresult result = call.worker().parts().jit_links().OnThread(call.worker(), [&] {
    return call.driver().cuLinkCreate_v2(options->count(), options->options(), options->values(), &state);
  });
  if (result == CUDA_SUCCESS) {
    call.New(request.state, state);
    call.worker().parts().jit_links().Keep(request.state, std::move(options));
  }
  call.Finish(result);
}

void Do_cuLinkAddData_v2(CallContext& call, const cuLinkAddData_v2Request& request) {
  AddData<cuLinkAddData_v2Reply>(call, request);
}
void Do_cuLinkAddFile_v2(CallContext& call, const cuLinkAddFile_v2Request& request) {
  AddData<cuLinkAddFile_v2Reply>(call, request);
}

void Do_cuLinkComplete(CallContext& call, const cuLinkCompleteRequest& request) {
  CUlinkState state = call.Use<CUlinkState>(request.state);
  if (!call.ok()) return call.Finish(call.error());
  void* cubin = nullptr;
  size_t bytes = 0;
  const CUresult result = call.worker().parts().jit_links().OnThread(
      call.worker(), [&] { return call.driver().cuLinkComplete(state, &cubin, &bytes); });
  cuLinkCompleteReply reply;
  if (result == CUDA_SUCCESS) {
    const auto* data = static_cast<const std::byte*>(cubin);
    reply.blob = call.worker().parts().blobs().Put(std::vector<std::byte>(data, data + bytes));
    reply.size_bytes = bytes;
  }
  FinishWithLogs(call, result, request.state, reply);
}

void Do_cuLinkDestroy(CallContext& call, const cuLinkDestroyRequest& request) {
  CUlinkState state = call.Use<CUlinkState>(request.state);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result =
      call.worker().parts().jit_links().OnThread(call.worker(), [&] { return call.driver().cuLinkDestroy(state); });
  if (result == CUDA_SUCCESS) {
    call.Free(request.state);
    call.worker().parts().jit_links().Drop(request.state);
  }
  call.Finish(result);
}

}  // namespace tessera
