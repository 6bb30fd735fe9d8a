// What the host sees of graphs that kernels launch and of kernel nodes that kernels change. Kernels of the emulator can do neither:
// code that calls cudaGraphLaunch() does not load. The host can make, upload, launch and destroy them.
//
// Their handles are addresses on a device, which the driver gives again at once when an object is destroyed.
// With Driver::graph_mutex held, except DeviceHandle.
// Source: driver 580.159.04 on an H200; CUDA driver API, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE.
#pragma once

#include "server/emulator/driver/graph.h"

namespace tessera::emulator {

// The first node of the graph, or of one embedded in it, that kernels cannot launch; null: there is none.
GraphNodePtr NodeNotForDevices(const Graph& graph);

// Whether the attribute may have this value.
bool MayBeUpdatable(const CUkernelNodeAttrValue& value);
// The attribute of a kernel node: makes it one that kernels change if `value` says so, and `value` its device node.
CUresult SetUpdatable(GraphNode& node, CUkernelNodeAttrValue* value);
bool HasUpdatableNodes(const Graph& graph);

}  // namespace tessera::emulator
