// Graphs: nodes, graphs and memory that do not belong together.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

char host[4096];
const CUdeviceptr kHost = reinterpret_cast<CUdeviceptr>(host);

CUDA_MEMSET_NODE_PARAMS SetOf(CUdeviceptr address, size_t bytes = 16) { return {address, 0, 0, 1, bytes, 1}; }

CUDA_MEMCPY3D CopyOf(CUmemorytype from_type, CUdeviceptr from, CUmemorytype to_type, CUdeviceptr to, size_t bytes = 16) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from_type;
  copy.srcDevice = from;
  copy.srcHost = reinterpret_cast<const void*>(from);
  copy.dstMemoryType = to_type;
  copy.dstDevice = to;
  copy.dstHost = reinterpret_cast<void*>(to);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_KERNEL_NODE_PARAMS KernelOf(CUfunction function) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  return params;
}

CUresult AddSet(CUdeviceptr address, size_t bytes = 16) {
  Graph g;
  const auto params = SetOf(address, bytes);
  CUgraphNode node;
  return cuGraphAddMemsetNode(&node, g, nullptr, 0, &params, Current());
}

CUresult AddCopy(const CUDA_MEMCPY3D& copy) {
  Graph g;
  CUgraphNode node;
  return cuGraphAddMemcpyNode(&node, g, nullptr, 0, &copy, Current());
}

CUresult AddKernel(const CUDA_KERNEL_NODE_PARAMS& params) {
  Graph g;
  CUgraphNode node;
  return cuGraphAddKernelNode(&node, g, nullptr, 0, &params);
}

CUresult AddAny(const CUgraphNodeParams& params) {
  Graph g;
  CUgraphNode node;
  CUgraphNodeParams copy = params;
  return cuGraphAddNode(&node, g, nullptr, nullptr, 0, &copy);
}

CUgraphNodeParams Any(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}

CUresult AddWrite(CUdeviceptr address, CUcontext context) {
  Graph g;
  CUstreamBatchMemOpParams operation{};
  operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address, {1}, 0, 0};
  const CUDA_BATCH_MEM_OP_NODE_PARAMS params{context, 1, &operation, 0};
  return cuGraphAddBatchMemOpNode(Out<CUgraphNode>(), g, nullptr, 0, &params);
}

CUresult AddWrite(CUdeviceptr address) { return AddWrite(address, Current()); }

CUresult AddFree(CUdeviceptr address) {
  Graph g;
  CUgraphNode node;
  return cuGraphAddMemFreeNode(&node, g, nullptr, 0, address);
}

CUDA_MEM_ALLOC_NODE_PARAMS AllocOf(int device) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  params.bytesize = 64;
  return params;
}

CUresult AddAlloc(CUDA_MEM_ALLOC_NODE_PARAMS params) {
  Graph g;
  CUgraphNode node;
  return cuGraphAddMemAllocNode(&node, g, nullptr, 0, &params);
}

CUresult Attribute(CUkernelNodeAttrID attribute) {
  Module m;
  Graph g;
  CUkernelNodeAttrValue value{};
  return cuGraphKernelNodeGetAttribute(g.Kernel(m["Nothing"]), attribute, &value);
}

CUresult SetAttribute(CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue& value) {
  Module m;
  Graph g;
  return cuGraphKernelNodeSetAttribute(g.Kernel(m["Nothing"]), attribute, &value);
}

const Row kRows[] = {
    {"cuGraphAddMemsetNode: ordinary memory", "graphs/graph_params.cc", kInvalid, [] { return AddSet(kHost); }},
    {"cuGraphAddMemsetNode: nowhere", "graphs/graph_params.cc", kInvalid, [] { return AddSet(kNowhere); }},
    {"cuGraphAddMemsetNode: freed memory", "graphs/graph_params.cc", kInvalid, [] { return AddSet(Gone<Block>()); }},
    {"cuGraphAddMemsetNode: beyond the end of a block", "graphs/graph_params.cc", kInvalid, [] { return AddSet(Block(64), 65); }},
    {"cuGraphAddMemsetNode: destroyed context", "call/call.cc", CUDA_ERROR_CONTEXT_IS_DESTROYED,
     [] {
       Block b;
       Graph g;
       const CUcontext gone = Gone<OtherContext>();
       const auto params = SetOf(b);
       return cuGraphAddMemsetNode(Out<CUgraphNode>(), g, nullptr, 0, &params, gone);
     }},
    {"cuGraphAddMemcpyNode: from ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] { return AddCopy(CopyOf(CU_MEMORYTYPE_DEVICE, kHost, CU_MEMORYTYPE_DEVICE, Block())); }},
    {"cuGraphAddMemcpyNode: ordinary memory", "graphs/graph_shadow.cc", CUDA_SUCCESS,
     [] { return AddCopy(CopyOf(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, Block())); }},
    {"cuGraphAddMemcpyNode: freed memory", "copies/copy_box.cc", kInvalid,
     [] { return AddCopy(CopyOf(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, Gone<Block>())); }},
    {"cuGraphAddMemcpyNode: beyond the end of a block", "copies/copy_box.cc", kInvalid,
     [] { return AddCopy(CopyOf(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, Block(64), 65)); }},
    {"cuGraphAddMemcpyNode: ordinary memory on both sides", "graphs/graph_shadow.cc", CUDA_SUCCESS,
     [] { return AddCopy(CopyOf(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_HOST, kHost + 1024)); }},
    {"cuGraphMemcpyNodeSetParams: ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       Graph g;
       auto copy = CopyOf(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, b + 1024);
       CUgraphNode node;
       CHECK_DRIVER(cuGraphAddMemcpyNode(&node, g, nullptr, 0, &copy, Current()));
       copy.srcDevice = kHost;
       return cuGraphMemcpyNodeSetParams(node, &copy);
     }},
    {"cuGraphMemsetNodeSetParams: ordinary memory", "graphs/graph_params.cc", kInvalid,
     [] {
       Block b;
       Graph g;
       const CUgraphNode node = g.Set(b);
       const auto params = SetOf(kHost);
       return cuGraphMemsetNodeSetParams(node, &params);
     }},
    {"cuGraphExecMemsetNodeSetParams: ordinary memory", "graphs/graph_params.cc", kInvalid,
     [] {
       Block b;
       Graph g;
       const CUgraphNode node = g.Set(b);
       Exec e(g);
       const auto params = SetOf(kHost);
       return cuGraphExecMemsetNodeSetParams(e, node, &params, Current());
     }},
    {"cuGraphExecMemsetNodeSetParams: another context", "server", CUDA_SUCCESS,
     [] {
       Block b;
       Graph g;
       const CUgraphNode node = g.Set(b);
       Exec e(g);
       OtherContext other;
       const auto params = SetOf(b);
       return cuGraphExecMemsetNodeSetParams(e, node, &params, other);
     }},

    {"cuGraphAddKernelNode: null function", "graphs/graph_params.cc", CUDA_ERROR_INVALID_HANDLE,
     [] { return AddKernel(KernelOf(nullptr)); }},
    {"cuGraphAddKernelNode: a kernel in place of a function", "graphs/graph_params.cc", CUDA_ERROR_INVALID_HANDLE,
     [] { return AddKernel(KernelOf(reinterpret_cast<CUfunction>(Library()["Nothing"]))); }},
    {"cuGraphAddKernelNode: kernel", "graphs/graph_params.cc", CUDA_SUCCESS,
     [] {
       Library l;
       auto params = KernelOf(nullptr);
       params.kern = l["Nothing"];
       return AddKernel(params);
     }},
    {"cuGraphAddKernelNode: function of another context", "graphs/graph_params.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       const CUfunction f = FunctionOf(other);
       return AddKernel(KernelOf(f));
     },
     kNeedsGpu},
    {"cuGraphAddKernelNode: function of an unloaded module", "graphs/graph_params.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       CUfunction f;
       {
         Module m;
         f = m["Nothing"];
       }
       return AddKernel(KernelOf(f));
     },
     kDangerous},
    {"cuGraphAddKernelNode: no parameters where the kernel has one", "code/kernel_params.cc", kInvalid,
     [] { return AddKernel(KernelOf(Module()["Store"])); }},
    {"cuGraphAddKernelNode: blocks that no device takes", "server", kInvalid,
     [] {
       Module m;
       auto params = KernelOf(m["Nothing"]);
       params.blockDimX = 2048;
       return AddKernel(params);
     }},
    {"cuGraphExecKernelNodeSetParams: function of another context", "server", kInvalid,
     [] {
       OtherContext other;
       Module m;
       Graph g;
       const CUgraphNode node = g.Kernel(m["Nothing"]);
       Exec e(g);
       const CUfunction f = FunctionOf(other);
       const auto params = KernelOf(f);
       return cuGraphExecKernelNodeSetParams(e, node, &params);
     },
     kNeedsGpu},
    {"cuGraphKernelNodeGetParams: node of another kind", "server", kInvalid,
     [] { return cuGraphKernelNodeGetParams(Graph().Empty(), Out<CUDA_KERNEL_NODE_PARAMS>()); }},
    {"cuGraphKernelNodeSetParams: node of another kind", "server", kInvalid,
     [] {
       Module m;
       Graph g;
       const auto params = KernelOf(m["Nothing"]);
       return cuGraphKernelNodeSetParams(g.Empty(), &params);
     }},
    {"cuGraphMemcpyNodeGetParams: node of another kind", "server", kInvalid,
     [] { return cuGraphMemcpyNodeGetParams(Graph().Empty(), Out<CUDA_MEMCPY3D>()); }},
    {"cuGraphHostNodeGetParams: node of another kind", "server", kInvalid,
     [] { return cuGraphHostNodeGetParams(Graph().Empty(), Out<CUDA_HOST_NODE_PARAMS>()); }},
    {"cuGraphKernelNodeGetAttribute: event that it records", "calls/graph_attribute.cc", kInvalid,
     [] { return Attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT); }},
    {"cuGraphKernelNodeGetAttribute: event of its completion", "calls/graph_attribute.cc", kInvalid,
     [] { return Attribute(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT); }},
    {"cuGraphKernelNodeGetAttribute: device-updatable", "calls/graph_attribute.cc", CUDA_SUCCESS,
     [] { return Attribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE); }},
    {"cuGraphKernelNodeSetAttribute: device-updatable", "calls/graph_attribute.cc", CUDA_SUCCESS,
     [] {
       CUkernelNodeAttrValue value{};
       value.deviceUpdatableKernelNode.deviceUpdatable = 1;
       return SetAttribute(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, value);
     }},
    {"cuGraphKernelNodeSetAttribute: event that it records", "calls/graph_attribute.cc", kInvalid,
     [] {
       Event e(CU_EVENT_DISABLE_TIMING);
       CUkernelNodeAttrValue value{};
       value.programmaticEvent.event = e;
       return SetAttribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, value);
     }},
    {"cuGraphKernelNodeSetAttribute: event of its completion", "calls/graph_attribute.cc", kInvalid,
     [] {
       Event e(CU_EVENT_DISABLE_TIMING);
       CUkernelNodeAttrValue value{};
       value.launchCompletionEvent.event = e;
       return SetAttribute(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, value);
     }},

    {"cuGraphAddEventRecordNode: destroyed event", "graphs/graph_params.cc", kInvalid,
     [] { return cuGraphAddEventRecordNode(Out<CUgraphNode>(), Graph(), nullptr, 0, Gone<Event>()); }, kDangerous},
    {"cuGraphAddEventRecordNode: null", "graphs/graph_params.cc", kInvalid,
     [] { return cuGraphAddEventRecordNode(Out<CUgraphNode>(), Graph(), nullptr, 0, nullptr); }},
    {"cuGraphAddEventWaitNode: null", "protocol/spec/graph.toml", kInvalid,
     [] {
       Graph g;
       return cuGraphAddEventWaitNode(Out<CUgraphNode>(), g, nullptr, 0, nullptr);
     }},
    {"cuGraphEventRecordNodeSetEvent: null", "protocol/spec/graph.toml", kInvalid,
     [] {
       Graph g;
       Event e;
       CUgraphNode node;
       CHECK_DRIVER(cuGraphAddEventRecordNode(&node, g, nullptr, 0, e));
       return cuGraphEventRecordNodeSetEvent(node, nullptr);
     }},
    {"cuGraphEventWaitNodeSetEvent: null", "protocol/spec/graph.toml", kInvalid,
     [] {
       Graph g;
       Event e;
       CUgraphNode node;
       CHECK_DRIVER(cuGraphAddEventWaitNode(&node, g, nullptr, 0, e));
       return cuGraphEventWaitNodeSetEvent(node, nullptr);
     }},
    {"cuGraphExecEventRecordNodeSetEvent: null", "protocol/spec/graph.toml", kInvalid,
     [] {
       Graph g;
       Event e;
       CUgraphNode node;
       CHECK_DRIVER(cuGraphAddEventRecordNode(&node, g, nullptr, 0, e));
       Exec exec(g);
       return cuGraphExecEventRecordNodeSetEvent(exec, node, nullptr);
     }},
    {"cuGraphExecEventWaitNodeSetEvent: null", "protocol/spec/graph.toml", kInvalid,
     [] {
       Graph g;
       Event e;
       CUgraphNode node;
       CHECK_DRIVER(cuGraphAddEventWaitNode(&node, g, nullptr, 0, e));
       Exec exec(g);
       return cuGraphExecEventWaitNodeSetEvent(exec, node, nullptr);
     }},
    {"cuGraphAddBatchMemOpNode: freed memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] { return AddWrite(Gone<Block>()); }},
    {"cuGraphAddBatchMemOpNode: ordinary memory", "memory/memory_operations.cc", CUDA_SUCCESS, [] { return AddWrite(kHost); },
     kNeedsGpu},
    {"cuGraphAddBatchMemOpNode: managed memory", "memory/memory_operations.cc", CUDA_SUCCESS, [] { return AddWrite(Managed()); }},
    {"cuGraphAddBatchMemOpNode: a block", "memory/memory_operations.cc", CUDA_SUCCESS, [] { return AddWrite(Block()); }},
    {"cuGraphAddBatchMemOpNode: registered memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] { return AddWrite(Registered().address()); }},
    {"cuGraphAddBatchMemOpNode: null context", "graphs/graph_params.cc", kInvalid, [] { return AddWrite(Block(), nullptr); }},
    {"cuGraphAddEventRecordNode: event of another context", "server", CUDA_SUCCESS,
     [] {
       OtherContext other;
       Graph g;
       CUgraphNode node;
       const CUevent e = EventOf(other);
       return cuGraphAddEventRecordNode(&node, g, nullptr, 0, e);
     }},
    {"cuGraphAddEmptyNode: node of another graph", "server", kInvalid,
     [] {
       Graph a, b;
       const CUgraphNode before = a.Empty();
       return cuGraphAddEmptyNode(Out<CUgraphNode>(), b, &before, 1);
     }},
    {"cuGraphAddEmptyNode: destroyed graph", "call/call.cc", kInvalid,
     [] { return cuGraphAddEmptyNode(Out<CUgraphNode>(), Gone<Graph>(), nullptr, 0); }, kDangerous},
    {"cuGraphAddEmptyNode: destroyed node", "call/call.cc", kInvalid,
     [] {
       Graph g;
       const CUgraphNode before = g.Empty();
       CHECK_DRIVER(cuGraphDestroyNode(before));
       return cuGraphAddEmptyNode(Out<CUgraphNode>(), g, &before, 1);
     },
     kDangerous},
    {"cuGraphAddEmptyNode: the same node twice", "server", kInvalid,
     [] {
       Graph g;
       const CUgraphNode before = g.Empty();
       const CUgraphNode twice[] = {before, before};
       CUgraphNode node;
       return cuGraphAddEmptyNode(&node, g, twice, 2);
     }},
    {"cuGraphAddDependencies: to itself", "server", kInvalid,
     [] {
       Graph g;
       const CUgraphNode node = g.Empty();
       return cuGraphAddDependencies(g, &node, &node, nullptr, 1);
     }},
    {"cuGraphAddDependencies: twice", "server", kInvalid,
     [] {
       Graph g;
       const CUgraphNode a = g.Empty(), b = g.Empty();
       CHECK_DRIVER(cuGraphAddDependencies(g, &a, &b, nullptr, 1));
       return cuGraphAddDependencies(g, &a, &b, nullptr, 1);
     }},
    {"cuGraphAddDependencies: nodes of two graphs", "server", kInvalid,
     [] {
       Graph g, other;
       const CUgraphNode a = g.Empty(), b = other.Empty();
       return cuGraphAddDependencies(g, &a, &b, nullptr, 1);
     }},
    {"cuGraphRemoveDependencies: that are none", "server", kInvalid,
     [] {
       Graph g;
       const CUgraphNode a = g.Empty(), b = g.Empty();
       return cuGraphRemoveDependencies(g, &a, &b, nullptr, 1);
     }},
    {"cuGraphAddMemFreeNode: a block", "server", kInvalid, [] { return AddFree(Block()); }},
    {"cuGraphAddMemFreeNode: ordinary memory", "server", kInvalid, [] { return AddFree(kHost); }},
    {"cuGraphAddMemFreeNode: pool memory", "server", kInvalid, [] { return AddFree(Pooled()); }},
    {"cuGraphAddMemAllocNode: more descriptors than devices", "graphs/graph_params.cc", kInvalid,
     [] {
       CUmemAccessDesc access[32]{};
       for (auto& one : access) one = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
       auto params = AllocOf(0);
       params.accessDescs = access;
       params.accessDescCount = 32;
       return AddAlloc(params);
     }},
    {"cuGraphAddMemAllocNode: device that does not exist", "server", kInvalid, [] { return AddAlloc(AllocOf(99)); }},
    {"cuGraphAddMemAllocNode: reserved bytes", "graphs/graph_params.cc", kInvalid,
     [] {
       auto params = AllocOf(0);
       params.poolProps.reserved[0] = 1;
       return AddAlloc(params);
     }},
    {"cuGraphAddHostNode: null function", "graphs/graph_params.cc", kInvalid,
     [] {
       Graph g;
       const CUDA_HOST_NODE_PARAMS params{};
       CUgraphNode node;
       return cuGraphAddHostNode(&node, g, nullptr, 0, &params);
     }},
    {"cuGraphAddNode: unknown kind", "graphs/graph_params.cc", kInvalid,
     [] { return AddAny(Any(static_cast<CUgraphNodeType>(77))); }},
    {"cuGraphAddNode: unused bytes", "graphs/graph_params.cc", kInvalid,
     [] {
       auto params = Any(CU_GRAPH_NODE_TYPE_EMPTY);
       params.reserved1[5] = 1;
       return AddAny(params);
     }},
    {"cuGraphAddNode: empty", "graphs/graph_params.cc", CUDA_SUCCESS, [] { return AddAny(Any(CU_GRAPH_NODE_TYPE_EMPTY)); }},
    {"cuGraphAddNode: copy with flags", "graphs/graph_params.cc", kInvalid,
     [] {
       Block b;
       auto params = Any(CU_GRAPH_NODE_TYPE_MEMCPY);
       params.memcpy.flags = 1;
       params.memcpy.copyParams = CopyOf(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, b + 1024);
       return AddAny(params);
     }},
    {"cuGraphAddNode: copy without a context", "graphs/graph_params.cc", CUDA_SUCCESS,
     [] {
       Block b;
       auto params = Any(CU_GRAPH_NODE_TYPE_MEMCPY);
       params.memcpy.copyParams = CopyOf(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, b + 1024);
       return AddAny(params);
     }},
    {"cuGraphAddNode: set without a context", "graphs/graph_params.cc", CUDA_SUCCESS,
     [] {
       Block b;
       auto params = Any(CU_GRAPH_NODE_TYPE_MEMSET);
       params.memset.dst = b;
       params.memset.elementSize = 1;
       params.memset.width = 16;
       params.memset.height = 1;
       return AddAny(params);
     }},
    {"cuGraphAddNode: conditional without a handle", "server", CUDA_ERROR_INVALID_CONTEXT,
     [] {
       auto params = Any(CU_GRAPH_NODE_TYPE_CONDITIONAL);
       params.conditional.type = CU_GRAPH_COND_TYPE_IF;
       params.conditional.size = 1;
       return AddAny(params);
     }},
    {"cuGraphAddNode: signals of no external semaphores", "graphs/graph_params.cc", CUDA_SUCCESS,
     [] { return AddAny(Any(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL)); }, 0, CUDA_ERROR_NOT_SUPPORTED, "README.md"},
    {"cuGraphNodeSetParams: node of another kind", "server", kInvalid,
     [] {
       Block b;
       Graph g;
       auto params = Any(CU_GRAPH_NODE_TYPE_MEM_FREE);
       params.free.dptr = b;
       return cuGraphNodeSetParams(g.Empty(), &params);
     }},

    {"cuGraphInstantiate: for launches by kernels", "calls/graph.cc", CUDA_SUCCESS,
     [] {
       Module m;
       Graph g;
       g.Kernel(m["Nothing"]);
       CUgraphExec e;
       const CUresult result = cuGraphInstantiate(&e, g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
       if (result == CUDA_SUCCESS) cuGraphExecDestroy(e);
       return result;
     }},
    {"cuGraphInstantiateWithParams: for launches by kernels", "calls/graph.cc", CUDA_SUCCESS,
     [] {
       Module m;
       Graph g;
       g.Kernel(m["Nothing"]);
       CUgraphExec e;
       CUDA_GRAPH_INSTANTIATE_PARAMS params{};
       params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
       const CUresult result = cuGraphInstantiateWithParams(&e, g, &params);
       if (result == CUDA_SUCCESS) cuGraphExecDestroy(e);
       return result;
     }},
    {"cuGraphInstantiate: unknown flags", "server", kInvalid,
     [] { return cuGraphInstantiate(Out<CUgraphExec>(), Graph(), 0x100); }},
    {"cuGraphExecUpdate: another topology", "server", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
     [] {
       Graph a, b;
       a.Empty();
       b.Empty();
       b.Empty();
       Exec e(a);
       return cuGraphExecUpdate(e, b, Out<CUgraphExecUpdateResultInfo>());
     }},
    {"cuGraphExecDestroy: a second time", "call/call.cc", kInvalid,
     [] {
       CUgraphExec gone;
       {
         Graph g;
         Exec e(g);
         gone = e;
       }
       return cuGraphExecDestroy(gone);
     },
     kDangerous},
    {"cuGraphDestroy: a second time", "call/call.cc", kInvalid, [] { return cuGraphDestroy(Gone<Graph>()); }, kDangerous},
    {"cuGraphLaunch: destroyed exec", "call/call.cc", kInvalid,
     [] {
       CUgraphExec gone;
       {
         Graph g;
         Exec e(g);
         gone = e;
       }
       return cuGraphLaunch(gone, nullptr);
     },
     kDangerous},
    {"cuGraphLaunch: stream of another context", "calls/graph.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       Module m;
       Graph g;
       g.Kernel(m["Nothing"]);
       Exec e(g);
       const CUstream s = StreamOf(other);
       return cuGraphLaunch(e, s);
     }},
    {"cuGraphNodeGetType: destroyed node", "call/call.cc", kInvalid,
     [] {
       Graph g;
       const CUgraphNode node = g.Empty();
       CHECK_DRIVER(cuGraphDestroyNode(node));
       return cuGraphNodeGetType(node, Out<CUgraphNodeType>());
     },
     kDangerous},
    {"cuGraphNodeFindInClone: node of another graph", "server", kInvalid,
     [] {
       Graph a, b;
       const CUgraphNode node = a.Empty();
       CUgraph clone;
       CHECK_DRIVER(cuGraphClone(&clone, b));
       CUgraphNode found;
       const CUresult result = cuGraphNodeFindInClone(&found, node, clone);
       cuGraphDestroy(clone);
       return result;
     }},
    {"cuGraphNodeSetEnabled: empty node", "server", kInvalid,
     [] {
       Graph g;
       const CUgraphNode node = g.Empty();
       Exec e(g);
       return cuGraphNodeSetEnabled(e, node, 0);
     }},
    {"cuGraphNodeSetEnabled: node of another graph", "server", kInvalid,
     [] {
       Module m;
       Graph g, other;
       g.Kernel(m["Nothing"]);
       const CUgraphNode node = other.Kernel(m["Nothing"]);
       Exec e(g);
       return cuGraphNodeSetEnabled(e, node, 0);
     }},
};

}  // namespace

std::span<const Row> GraphRows() { return kRows; }

}  // namespace refusals
