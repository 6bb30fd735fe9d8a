// Instantiated graphs, and graphs printed as text.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "generated/server_custom.h"
#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"
#include "server/driver/missing_entry.h"
#include "server/worker/await_turn.h"
#include "server/worker/call_context.h"
#include "server/worker/code/blob_store.h"
#include "server/worker/completion.h"
#include "server/worker/graphs/host_copy_node.h"
#include "server/worker/graphs/kernel_needs.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/timed_launch.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// The longest text that cuGraphInstantiate is asked to write; callers' buffers are some KiB.
constexpr size_t kLogBytesMax = 64 * 1024;

GraphCharges& Graphs(CallContext& call) { return call.worker().parts().memory().charges().graphs(); }

GraphNeeds& Needs(CallContext& call) { return call.worker().parts().memory().charges().needs(); }

// The result of `work`, which launches or uploads `exec`.
template <typename Work>
CUresult WithMemory(CallContext& call, CUgraphExec exec, const Work& work) {
  const auto allocate = [&] {
    if (!Graphs(call).any()) return work();
    return WithoutReserves(call, [&] { return Graphs(call).Launch(exec, work); });
  };
  return Needs(call).any() ? WithLocalMemory(call, Needs(call).Of(exec), allocate) : allocate();
}

// `exec` was made from `graph`, or is one of it now.
void NoteInstance(CallContext& call, CUgraphExec exec, CUgraph graph, LocalNeeds needs) {
  NoteInstance(call, exec, graph);
  Needs(call).Set(exec, std::move(needs));
}

// Handles of nodes that the driver named in an error; nodes of graphs embedded by the driver itself are unknown objects
// and get a handle like all others.
HandleId KnownNode(CallContext& call, CUgraphNode node) {
  return node == nullptr ? HandleId() : call.Known(HandleKind::kGraphNode, node);
}

// A graph that kernels launch has no host functions, so no copies of memory that only the client has. Of ordinary memory the
// driver (580, measured) refuses them by itself; of registered memory natively it does not. True: it is refused, and `reply` says
// so.
template <typename Reply>
bool RefuseHostCopy(CallContext& call, CUgraph graph, uint64_t flags, CUgraphNode* node, Reply* reply) {
  HostCopyNodeRecord record;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0) return false;
  *node = FindHostCopy(call, graph, &record);
  if (*node == nullptr) return false;
  reply->host_copy = record.pageable == 0;
  reply->result = reply->host_copy ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  return true;
}

// The driver's own handle of a graph that kernels launch: the application has that one too, since it is what kernels use.
uint64_t DeviceGraph(CUgraphExec exec, uint64_t flags) {
  return (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0 ? reinterpret_cast<uint64_t>(exec) : 0;
}

template <typename Reply, typename Request>
void Update(CallContext& call, const Request& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  const DriverTable& driver = call.driver();
  const LocalNeeds needs = NeedsOfGraph(call, graph);
  Reply reply;
  if (driver.cuGraphExecUpdate_v2 != nullptr) {
    CUgraphExecUpdateResultInfo info{};
    reply.result = WithLocalMemory(call, needs, [&] { return driver.cuGraphExecUpdate_v2(exec, graph, &info); });
    reply.update_result = info.result;
    reply.error_node = KnownNode(call, info.errorNode);
    reply.error_from_node = KnownNode(call, info.errorFromNode);
  } else if (driver.cuGraphExecUpdate != nullptr) {
    CUgraphNode node = nullptr;
    CUgraphExecUpdateResult update = CU_GRAPH_EXEC_UPDATE_ERROR;
    reply.result = WithLocalMemory(call, needs, [&] { return driver.cuGraphExecUpdate(exec, graph, &node, &update); });
    reply.update_result = update;
    reply.error_node = KnownNode(call, node);
  } else {
    return call.Finish(MissingEntry("cuGraphExecUpdate"));
  }
  // The limit refused it, and the driver was not asked.
  if (reply.result == CUDA_ERROR_OUT_OF_MEMORY) reply.update_result = CU_GRAPH_EXEC_UPDATE_ERROR;
  if (reply.result == CUDA_SUCCESS) NoteInstance(call, exec, graph, needs);
  call.Finish(CUDA_SUCCESS, reply);  // the update's own result is in the reply, since a failure has outputs too
}

}  // namespace

// The upload is work of the GPU, as that of cuGraphUpload is.
void Await_cuGraphInstantiateWithParams(CallContext& call, const cuGraphInstantiateWithParamsRequest& request) {
  if ((request.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0) return;
  const CUstream stream = call.UseStream(request.upload_stream);
  if (call.ok()) AwaitTurn(call, stream, {call.header().call});
}

void Do_cuGraphInstantiateWithParams(CallContext& call, const cuGraphInstantiateWithParamsRequest& request) {
  const auto graph = call.Use<CUgraph>(request.graph);
  const CUstream stream = call.UseStream(request.upload_stream);
  if (!call.ok()) return call.Finish(call.error());
  const DriverTable& driver = call.driver();
  if (driver.cuGraphInstantiateWithParams == nullptr) return call.Finish(MissingEntry("cuGraphInstantiateWithParams"));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = request.flags;
  params.hUploadStream = stream;
  CUgraphExec exec = nullptr;
  LocalNeeds needs;
  cuGraphInstantiateWithParamsReply reply;
  if (RefuseHostCopy(call, graph, request.flags, &params.hErrNode_out, &reply)) {
    params.result_out = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
  } else {
    const auto instantiate = [&] { return driver.cuGraphInstantiateWithParams(&exec, graph, &params); };
    const bool uploads = (request.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
    const auto upload = [&] { return Graphs(call).Upload(graph, instantiate); };
    needs = NeedsOfGraph(call, graph);
    reply.result = WithLocalMemory(call, needs,
                                   [&] { return uploads && Graphs(call).any() ? WithoutReserves(call, upload) : instantiate(); });
    // The limit refused it, and the driver was not asked.
    if (reply.result != CUDA_SUCCESS && params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS) {
      params.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    }
  }
  reply.instantiate_result = params.result_out;
  if (reply.result == CUDA_SUCCESS) {
    NoteInstance(call, exec, graph, std::move(needs));
    call.New(request.exec, exec);
    reply.device_graph = DeviceGraph(exec, request.flags);
  } else {
    reply.error_node = KnownNode(call, params.hErrNode_out);
  }
  call.Finish(CUDA_SUCCESS, reply);
}

void Do_cuGraphInstantiateWithFlags(CallContext& call, const cuGraphInstantiateWithFlagsRequest& request) {
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphInstantiateWithFlags == nullptr) {
    return call.Finish(MissingEntry("cuGraphInstantiateWithFlags"));
  }
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  LocalNeeds needs;
  cuGraphInstantiateWithFlagsReply reply;
  if (!RefuseHostCopy(call, graph, request.flags, &node, &reply)) {
    needs = NeedsOfGraph(call, graph);
    reply.result =
        WithLocalMemory(call, needs, [&] { return call.driver().cuGraphInstantiateWithFlags(&exec, graph, request.flags); });
  }
  if (reply.result == CUDA_SUCCESS) {
    NoteInstance(call, exec, graph, std::move(needs));
    call.New(request.exec, exec);
    reply.device_graph = DeviceGraph(exec, request.flags);
  }
  call.Finish(CUDA_SUCCESS, reply);
}

// On a helper thread: the driver (580, measured) waits until the GPU has done all that it was given, whichever graph it is. So it
// does in cuGraphDestroy, of a graph with nodes that kernels change.
void Do_tesseraDeviceGraphDestroy(CallContext& call, const tesseraDeviceGraphDestroyRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result = call.driver().cuGraphExecDestroy(exec);
  if (result == CUDA_SUCCESS) call.Free(request.exec);
  call.Finish(result);
}

void Do_cuGraphExecChildGraphNodeSetParams(CallContext& call, const cuGraphExecChildGraphNodeSetParamsRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.hGraphExec);
  const auto node = call.Use<CUgraphNode>(request.hNode);
  const auto child = call.Use<CUgraph>(request.childGraph);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphExecChildGraphNodeSetParams == nullptr) {
    return call.Finish(MissingEntry("cuGraphExecChildGraphNodeSetParams"));
  }
  if (IsHostCopyNode(call, node)) return call.Finish(CUDA_ERROR_INVALID_VALUE);  // a copy, to the application
  const LocalNeeds needs = NeedsOfGraph(call, child);
  const CUresult result =
      WithLocalMemory(call, needs, [&] { return call.driver().cuGraphExecChildGraphNodeSetParams(exec, node, child); });
  if (result == CUDA_SUCCESS) NotePart(call, exec, child);
  if (result == CUDA_SUCCESS) Needs(call).Add(exec, needs);
  call.Finish(result);
}

void Do_cuGraphUpload(CallContext& call, const cuGraphUploadRequest& request) {
  if (call.driver().cuGraphUpload == nullptr) return call.Finish(MissingEntry("cuGraphUpload"));
  const auto exec = call.Use<CUgraphExec>(request.hGraph);
  const CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  AwaitTurn(call, stream, {call.header().call});
  call.Finish(WithMemory(call, exec, [&] { return call.driver().cuGraphUpload(exec, stream); }));
}

void Do_cuGraphLaunch(CallContext& call, const cuGraphLaunchRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.hGraph);
  const CUstream stream = call.UseStream(request.hStream);
  if (!call.ok()) return call.Finish(call.error());
  Worker& worker = call.worker();
  cuGraphLaunchReply reply;
  reply.waited = worker.parts().host_copies().Waits(exec);
  worker.completion().NoteKernel();
  worker.gate().CountGraph();
  AwaitTurn(call, stream, {request.hGraph.value()});
  const auto launch = [&] { return WithMemory(call, exec, [&] { return call.driver().cuGraphLaunch(exec, stream); }); };
  CUresult result = TimedLaunch(call, "graph", stream, launch);
  if (result != CUDA_SUCCESS || !reply.waited || !call.wants_reply()) return call.Finish(result, reply);
  auto deferred = call.Defer();
  result = worker.completion().WhenDone(stream, [deferred, reply](CUresult outcome) mutable {
    Encoder encoder;
    reply.Encode(encoder);
    deferred.Finish(outcome, encoder.bytes());
  });
  if (result != CUDA_SUCCESS) deferred.Finish(result);
}

void Do_tesseraGraphSources(CallContext& call, const tesseraGraphSourcesRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  if (!call.ok()) return call.Finish(call.error());
  std::vector<uint64_t> functions;
  for (const HostCopyInstances::Copy& copy : call.worker().parts().host_copies().Get(exec).copies) {
    if (copy.reads) functions.push_back(copy.function);
  }
  tesseraGraphSourcesReply reply;
  reply.functions.Borrow(functions);
  call.Finish(CUDA_SUCCESS, reply);
}

void Do_tesseraGraphOwnSource(CallContext& call, const tesseraGraphOwnSourceRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.exec);
  if (!call.ok()) return call.Finish(call.error());
  for (const HostCopyInstances::Copy& copy : call.worker().parts().host_copies().Get(exec).copies) {
    if (!copy.reads || copy.function != request.function) continue;
    if (copy.nested) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
    return SetExecHostCopyNode(call, exec, copy.node, request.params);
  }
  call.Finish(CUDA_ERROR_INVALID_VALUE);
}

void Do_cuGraphInstantiate_v2(CallContext& call, const cuGraphInstantiate_v2Request& request) {
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  const DriverTable& driver = call.driver();
  if (driver.cuGraphInstantiate_v2 == nullptr) return call.Finish(MissingEntry("cuGraphInstantiate_v2"));
  std::vector<char> log(kLogBytesMax);
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  cuGraphInstantiate_v2Reply reply;
  LocalNeeds needs = NeedsOfGraph(call, graph);
  reply.result =
      WithLocalMemory(call, needs, [&] { return driver.cuGraphInstantiate_v2(&exec, graph, &node, log.data(), log.size()); });
  reply.log = std::string_view(log.data(), strnlen(log.data(), log.size()));
  if (reply.result == CUDA_SUCCESS) {
    NoteInstance(call, exec, graph, std::move(needs));
    call.New(request.exec, exec);
  } else {
    reply.error_node = KnownNode(call, node);
  }
  call.Finish(CUDA_SUCCESS, reply);
}

void Do_cuGraphNodeSetEnabled(CallContext& call, const cuGraphNodeSetEnabledRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.hGraphExec);
  const auto node = call.Use<CUgraphNode>(request.hNode);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphNodeSetEnabled == nullptr) return call.Finish(MissingEntry("cuGraphNodeSetEnabled"));
  if (IsHostCopyNode(call, node)) {
    if (request.isEnabled != 0) return call.Finish(CUDA_SUCCESS);  // it is
    LogWarning("a copy node of memory that only the program has cannot be disabled: use pinned memory (cuMemHostAlloc)");
    return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  }
  call.Finish(call.driver().cuGraphNodeSetEnabled(exec, node, request.isEnabled));
}

void Do_cuGraphNodeGetEnabled(CallContext& call, const cuGraphNodeGetEnabledRequest& request) {
  const auto exec = call.Use<CUgraphExec>(request.hGraphExec);
  const auto node = call.Use<CUgraphNode>(request.hNode);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphNodeGetEnabled == nullptr) return call.Finish(MissingEntry("cuGraphNodeGetEnabled"));
  cuGraphNodeGetEnabledReply reply;
  reply.isEnabled = 1;
  if (IsHostCopyNode(call, node)) return call.Finish(CUDA_SUCCESS, reply);
  call.Finish(call.driver().cuGraphNodeGetEnabled(exec, node, &reply.isEnabled), reply);
}

void Do_cuGraphExecUpdate(CallContext& call, const cuGraphExecUpdateRequest& request) {
  Update<cuGraphExecUpdateReply>(call, request);
}
void Do_cuGraphExecUpdate_v2(CallContext& call, const cuGraphExecUpdate_v2Request& request) {
  Update<cuGraphExecUpdate_v2Reply>(call, request);
}

// The driver writes into memory of this process; the file itself is written by the client, where the path means something.
void Do_cuGraphDebugDotPrint(CallContext& call, const cuGraphDebugDotPrintRequest& request) {
  const auto graph = call.Use<CUgraph>(request.graph);
  if (!call.ok()) return call.Finish(call.error());
  if (call.driver().cuGraphDebugDotPrint == nullptr) return call.Finish(MissingEntry("cuGraphDebugDotPrint"));
  const UniqueFd file(memfd_create("graph", MFD_CLOEXEC));
  if (file.get() < 0) return call.Finish(CUDA_ERROR_OPERATING_SYSTEM);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const CUresult result = call.driver().cuGraphDebugDotPrint(graph, path.c_str(), request.flags);
  if (result != CUDA_SUCCESS) return call.Finish(result);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return call.Finish(CUDA_ERROR_OPERATING_SYSTEM);
  std::vector<std::byte> text(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = pread(file.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count <= 0) return call.Finish(CUDA_ERROR_OPERATING_SYSTEM);
    done += static_cast<size_t>(count);
  }
  cuGraphDebugDotPrintReply reply;
  reply.size_bytes = text.size();
  reply.blob = text.empty() ? 0 : call.worker().parts().blobs().Put(std::move(text));
  call.Finish(CUDA_SUCCESS, reply);
}

}  // namespace tessera
