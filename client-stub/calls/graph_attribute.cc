// Attributes of kernel nodes. Their values travel as bytes: the device node of a node that kernels change is the driver's own
// number on either side (device_graphs.h), and attributes with an event, which would not be, are none of nodes (driver 580).
#include "client-stub/call/call.h"
#include "client-stub/graphs/device_graphs.h"
#include "generated/client/graph.h"

namespace tessera {
namespace {

bool HoldsEvent(CUkernelNodeAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT || attribute == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
}

}  // namespace

CUresult Custom_cuGraphKernelNodeGetAttribute(Call& call, CUgraphNode hNode, CUkernelNodeAttrID attr,
                                              CUkernelNodeAttrValue* value_out) {
  if (!call.ok()) return call.result();
  if (value_out == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (HoldsEvent(attr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphKernelNodeGetAttributeRequest request;
  request.hNode = call.Use(HandleKind::kGraphNode, hNode);
  request.attr = attr;
  if (!call.ok()) return call.result();
  cuGraphKernelNodeGetAttributeReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result == CUDA_SUCCESS) *value_out = reply.value_out;
  return result;
}

CUresult Custom_cuGraphKernelNodeSetAttribute(Call& call, CUgraphNode hNode, CUkernelNodeAttrID attr,
                                              const CUkernelNodeAttrValue* value) {
  if (!call.ok()) return call.result();
  if (value == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (HoldsEvent(attr)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuGraphKernelNodeSetAttributeRequest request;
  request.node = call.Use(HandleKind::kGraphNode, hNode);
  request.attr = attr;
  request.value = *value;
  if (!call.ok()) return call.result();
  cuGraphKernelNodeSetAttributeReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  // An output, whatever the prototype says.
  if (attr == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE && reply.device_node != 0) {
    DeviceGraphs::Process().NoteDeviceNode();
    const_cast<CUkernelNodeAttrValue*>(value)->deviceUpdatableKernelNode.devNode =
        reinterpret_cast<CUgraphDeviceNode>(reply.device_node);
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera
