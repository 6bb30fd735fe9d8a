// Attributes of kernel nodes. Their values travel as bytes, so those that hold a handle are refused: an event, or a node
// that kernels update, would reach the driver (or the application) as a number of the other side.
#include "generated/client/graph.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

bool HoldsHandle(CUkernelNodeAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT || attribute == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
         attribute == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
}

CUresult Refuse(Call& call, CUkernelNodeAttrID attribute) {
  LogWarning("{}: attribute {} of kernel nodes is not supported, its value holds a handle", call.info().name,
             static_cast<int>(attribute));
  return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace

CUresult Custom_cuGraphKernelNodeGetAttribute(Call& call, CUgraphNode hNode, CUkernelNodeAttrID attr,
                                              CUkernelNodeAttrValue* value_out) {
  if (!call.ok()) return call.result();
  if (value_out == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (HoldsHandle(attr)) return Refuse(call, attr);
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
  if (HoldsHandle(attr)) return Refuse(call, attr);
  cuGraphKernelNodeSetAttributeRequest request;
  request.hNode = call.Use(HandleKind::kGraphNode, hNode);
  request.attr = attr;
  request.value = *value;
  if (!call.ok()) return call.result();
  return call.Sync(request);
}

}  // namespace tessera
