// Stream capture.
#include <algorithm>

#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;

namespace {

using GraphLock = std::lock_guard<std::recursive_mutex>;

CUresult Begin(CUstream handle, CUstreamCaptureMode mode, const GraphPtr& graph, std::vector<uint64_t> dependencies) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  RETURN_IF(mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  RETURN_IF(stream->is_legacy(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  GraphLock lock(GetDriver().graph_mutex);
  RETURN_IF(stream->capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->id = GetDriver().next_capture_id.fetch_add(1);
  capture->context = context->handle();
  capture->to_existing_graph = graph != nullptr;
  capture->graph = graph != nullptr ? graph : CreateGraph();
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = stream;
  capture->streams.push_back(stream);
  stream->capture = capture;
  stream->capture_dependencies = std::move(dependencies);
  ++GetDriver().active_captures;
  return CUDA_SUCCESS;
}

// Whether everything captured leads to where the origin stream stands.
bool AllJoined(const Capture& capture, const Stream& origin) {
  std::vector<uint64_t> reached = origin.capture_dependencies;
  for (size_t i = 0; i < reached.size(); ++i) {
    const GraphNodePtr node = capture.graph->FindNode(reached[i]);
    if (node == nullptr) continue;
    for (uint64_t before : node->dependencies) {
      if (std::find(reached.begin(), reached.end(), before) == reached.end()) reached.push_back(before);
    }
  }
  const auto all_reached = [&](const std::vector<uint64_t>& nodes) {
    return std::ranges::all_of(nodes, [&](uint64_t node) { return std::ranges::find(reached, node) != reached.end(); });
  };
  return all_reached(capture.last_of_destroyed) && std::ranges::all_of(capture.streams, [&](const std::weak_ptr<Stream>& weak) {
           const StreamPtr stream = weak.lock();
           return stream == nullptr || stream.get() == &origin || all_reached(stream->capture_dependencies);
         });
}

CUresult Info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
              const CUgraphEdgeData** edges, size_t* count) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  RETURN_IF(status == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream, false));
  GraphLock lock(GetDriver().graph_mutex);
  const auto& capture = stream->capture;
  *status = capture == nullptr     ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture->graph->handle);
  stream->capture_dependencies_out.clear();
  for (uint64_t node : stream->capture_dependencies) {
    stream->capture_dependencies_out.push_back(reinterpret_cast<CUgraphNode>(node));
  }
  stream->capture_edges_out.assign(stream->capture_dependencies.size(), CUgraphEdgeData{});
  if (dependencies != nullptr) *dependencies = stream->capture_dependencies_out.data();
  if (edges != nullptr) *edges = stream->capture_edges_out.data();
  if (count != nullptr) *count = stream->capture_dependencies.size();
  return CUDA_SUCCESS;
}

CUresult UpdateDependencies(CUstream handle, const CUgraphNode* dependencies, size_t count, unsigned flags) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  RETURN_IF(flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count != 0 && dependencies == nullptr), CUDA_ERROR_INVALID_VALUE);
  GraphLock lock(GetDriver().graph_mutex);
  RETURN_IF(stream->capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
  RETURN_IF(stream->capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  std::vector<uint64_t> nodes;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t node = reinterpret_cast<uint64_t>(dependencies[i]);
    RETURN_IF(stream->capture->graph->FindNode(node) == nullptr, CUDA_ERROR_INVALID_VALUE);
    nodes.push_back(node);
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->capture_dependencies.clear();
  for (uint64_t node : nodes) {
    auto& all = stream->capture_dependencies;
    if (std::find(all.begin(), all.end(), node) == all.end()) all.push_back(node);
  }
  return CUDA_SUCCESS;
}

bool OrdinaryEdges(const CUgraphEdgeData* edges, size_t count) {
  for (size_t i = 0; edges != nullptr && i < count; ++i) {
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) return false;
  }
  return true;
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) { return Begin(hStream, mode, nullptr, {}); }
CUresult cuStreamBeginCapture(CUstream hStream) { return Begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {}); }

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData, size_t numDependencies, CUstreamCaptureMode mode) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(!OrdinaryEdges(dependencyData, numDependencies), CUDA_ERROR_NOT_SUPPORTED);
  GraphLock lock(GetDriver().graph_mutex);
  const GraphPtr graph = GetDriver().graphs.Find(hGraph);
  RETURN_IF(graph == nullptr || (numDependencies != 0 && dependencies == nullptr), CUDA_ERROR_INVALID_VALUE);
  std::vector<uint64_t> nodes;
  for (size_t i = 0; i < numDependencies; ++i) {
    nodes.push_back(reinterpret_cast<uint64_t>(dependencies[i]));
    RETURN_IF(graph->FindNode(nodes.back()) == nullptr, CUDA_ERROR_INVALID_VALUE);
  }
  return Begin(hStream, mode, graph, std::move(nodes));
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(hStream, &context, &stream));
  RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  GraphLock lock(GetDriver().graph_mutex);
  const auto capture = stream->capture;
  RETURN_IF(capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
  if (capture->origin.lock() != stream) {
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult result = CUDA_SUCCESS;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->owner != std::this_thread::get_id()) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else if (capture->invalidated) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!AllJoined(*capture, *stream)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  EndCapture(*capture);
  if (phGraph != nullptr) *phGraph = nullptr;
  if (result == CUDA_SUCCESS && phGraph != nullptr) {
    *phGraph = reinterpret_cast<CUgraph>(capture->graph->handle);
  } else if (!capture->to_existing_graph) {
    DestroyGraph(capture->graph);
  }
  return result;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return Info(hStream, captureStatus, nullptr, nullptr, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return Info(hStream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, size_t* count) {
  return Info(hStream, status, id, graph, dependencies, nullptr, count);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  return Info(hStream, status, id, graph, dependencies, edges, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies, size_t numDependencies,
                                           unsigned int flags) {
  return UpdateDependencies(hStream, dependencies, numDependencies, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData,
                                              size_t numDependencies, unsigned int flags) {
  RETURN_IF(!OrdinaryEdges(dependencyData, numDependencies), CUDA_ERROR_NOT_SUPPORTED);
  return UpdateDependencies(hStream, dependencies, numDependencies, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED,
            CUDA_ERROR_INVALID_VALUE);
  std::swap(*mode, GetThread().capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
