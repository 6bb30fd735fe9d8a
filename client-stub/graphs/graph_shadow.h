// Copy nodes of graphs with an end in memory that only this process has (ordinary or registered host memory).
//
// Registered memory is read or written each time the node runs. Ordinary memory is read by the call that launches the graph,
// before anything else, so the program may change it after the call. A launch that writes ordinary memory returns when it is
// written. (Both measured: driver 580 on an H200.)
//
// The server gets a shadow instead, which is pinned memory, and a visit (stream_visit.h). The visit fills the shadow before the
// copy or empties it afterwards (server/worker/graphs/host_copy_node.h). Shadow and visit stay as long as the server has a graph,
// a clone or an instance with the node, and end when it says that these are gone. Calling thread only.
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

// The parameters of a copy node for the server: a MemcpyNodeRecord, or a HostCopyNodeRecord with a shadow and a visit in this
// process. The destructor gives up shadow and visit, unless Keep() said that the node was made:
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

  // False: the call failed, CUDA_ERROR_INVALID_VALUE for memory that the copy may not use. `context` may be null.
  bool Encode(const CUDA_MEMCPY3D& copy, CUcontext context);
  const std::vector<std::byte>& bytes() const { return bytes_; }
  // Encodes the node that has `source`, with a shadow and a visit of its own. False: the call failed.
  bool EncodeAgain(const GraphSource& source);
  void Keep() { visit_ = 0; }

 private:
  bool MakeShadow(const BoxEnds& ends, HostCopyNodeRecord* record);
  bool MakeSource(const HostRows& rows, HostCopyNodeRecord* record);

  Call& call_;
  std::vector<std::byte> bytes_;
  uint64_t visit_ = 0;
};

// Reads the ordinary memory that a launch of an instantiated graph copies from, and keeps the bytes for the visits of its nodes.
// Take() is called before the launch is sent; any result but CUDA_SUCCESS means that the call failed. It waits while launches of
// another instance have not used their bytes for the same shadow (GiveOwnSources), unless the bytes are equal.
class SourceSnapshots {
 public:
  SourceSnapshots(Call& call, HandleId exec) : call_(call), exec_(exec) {}
  // Gives up the bytes, unless Keep() said that the launch was sent.
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

// Gives `exec` a visit and a shadow of its own for each copy that it shares with an earlier instance. Then launches of the two
// need not wait for each other. Called after `exec` was instantiated or updated from another graph. Copies in embedded graphs
// stay shared, since the driver lets nobody change them. `user` is the call that made `exec`; it does not fail.
void GiveOwnSources(const Call& user, HandleId exec);

// Adds the copy as a node to the graph that the stream captures. Returns the call's result.
CUresult CaptureHostCopy(Call& call, HandleId stream, const CUDA_MEMCPY3D& copy);

}  // namespace tessera
