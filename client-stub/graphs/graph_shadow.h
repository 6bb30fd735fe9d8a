// Copy nodes of graphs with an end in memory that only this process has (ordinary or registered host memory).
//
// Registered memory is read or written each time the node runs. Ordinary memory is read by the call that launches the graph,
// before anything else, so the program may change it at once; a launch that writes some returns when that is done (both
// measured: driver 580 on an H200). The server is given a
// shadow of pinned memory in its place, and a visit that fills the shadow before the copy or empties it after
// (server/worker/graphs/host_copy_node.h). Both stay as long as the server has a graph, a clone or an instance with the node,
// and go when it says that they are gone. Calling thread only.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/transfers/box_ends.h"
#include "protocol/wire/graph_params.h"

namespace tessera {

struct GraphSource;  // ordinary memory that a node reads

// The parameters of a copy node for the server: a MemcpyNodeRecord, or a HostCopyNodeRecord with what it needs here. What
// the second kind needs is given up again unless the node came to be:
//
//   CopyNodeParams params(call);
//   if (!params.Encode(copy, context)) return call.result();
//   ... request.params = params.bytes(); ...
//   if (result == CUDA_SUCCESS) params.Keep();
class CopyNodeParams {
 public:
  explicit CopyNodeParams(Call& call) : call_(call) {}
  ~CopyNodeParams();
  CopyNodeParams(const CopyNodeParams&) = delete;
  CopyNodeParams& operator=(const CopyNodeParams&) = delete;

  // False when the call failed.
  bool Encode(const CUDA_MEMCPY3D& copy, CUcontext context);
  const std::vector<std::byte>& bytes() const { return bytes_; }
  // The same node as the source's, with a shadow and a visit of its own.
  bool EncodeAgain(const GraphSource& source);
  void Keep() { visit_ = 0; }

 private:
  bool MakeShadow(const BoxEnds& ends, HostCopyNodeRecord* record);
  bool MakeSource(const HostRows& rows, HostCopyNodeRecord* record);

  Call& call_;
  std::vector<std::byte> bytes_;
  uint64_t visit_ = 0;
};

// Reads what a launch of the instantiated graph copies from ordinary memory, for the visits of its nodes to find. To be
// called before the launch is sent; the call failed when the result is not CUDA_SUCCESS. Waits while launches of another
// instance have not used what they read through the same shadow (GiveOwnSources), unless the bytes are the same.
class SourceSnapshots {
 public:
  SourceSnapshots(Call& call, HandleId exec) : call_(call), exec_(exec) {}
  // Gives up what was read, unless the launch was sent.
  ~SourceSnapshots();
  SourceSnapshots(const SourceSnapshots&) = delete;
  SourceSnapshots& operator=(const SourceSnapshots&) = delete;

  CUresult Take();
  void Keep() { taken_.clear(); }

 private:
  Call& call_;
  const HandleId exec_;
  struct Taken {
    std::shared_ptr<GraphSource> source;
    uint64_t snapshot;
  };
  std::vector<Taken> taken_;
};

// After `exec` was instantiated, or has taken over another graph: each copy that it shares with an instance made before gets a
// visit and a shadow of its own, so that launches of the two need not wait for each other. A copy in an embedded graph, of
// which the driver lets nothing be changed, stays shared.
void GiveOwnSources(const Call& user, HandleId exec);

// Makes the copy a node of the graph that the stream captures.
CUresult CaptureHostCopy(Call& call, HandleId stream, const CUDA_MEMCPY3D& copy);

}  // namespace tessera
