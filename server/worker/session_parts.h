// What the domains of a session keep, an object each. They are made with the worker, in the order in which they stand here, and
// destroyed in the reverse one: when all threads of the worker have stopped, and while the driver still works. Each guards
// itself. The core knows none of them: root/session_parts.cc, on top of all domains, makes them.
#pragma once

#include <memory>

namespace tessera {

class BlobStore;          // code/blob_store.h
class CaptureTargets;     // graphs/graph_handles.h
class ConditionalBodies;  // graphs/graph_handles.h
class HostCopyInstances;  // graphs/host_copy_node.h
class HostFunctions;      // streams/host_function.h
class JitLinks;           // code/jit_links.h
class LayoutTable;        // code/layout_table.h
class LoadedImages;       // code/driver_image.h
class ModuleReferences;   // code/module_references.h
class PrimaryContexts;    // contexts/primary_contexts.h
class SessionMemory;      // memory/session_memory.h
class Sharing;            // sharing/sharing.h
class StreamVisits;       // streams/stream_visits.h
class WatchedEvents;      // streams/watched_events.h
class Worker;

class SessionParts {
 public:
  // Of a worker whose core is complete.
  explicit SessionParts(Worker& worker);
  ~SessionParts();
  SessionParts(const SessionParts&) = delete;
  SessionParts& operator=(const SessionParts&) = delete;

  BlobStore& blobs() { return *blobs_; }
  LoadedImages& loaded_images() { return *loaded_images_; }
  LayoutTable& layouts() { return *layouts_; }
  JitLinks& jit_links() { return *jit_links_; }
  ModuleReferences& module_references() { return *module_references_; }
  PrimaryContexts& primary_contexts() { return *primary_contexts_; }
  SessionMemory& memory() { return *memory_; }
  Sharing& sharing() { return *sharing_; }
  ConditionalBodies& conditional_bodies() { return *conditional_bodies_; }
  CaptureTargets& capture_targets() { return *capture_targets_; }
  HostCopyInstances& host_copies() { return *host_copies_; }
  WatchedEvents& watched_events() { return *watched_events_; }
  StreamVisits& stream_visits() { return *stream_visits_; }
  HostFunctions& host_functions() { return *host_functions_; }

 private:
  const std::unique_ptr<BlobStore> blobs_;
  const std::unique_ptr<LoadedImages> loaded_images_;
  const std::unique_ptr<LayoutTable> layouts_;
  const std::unique_ptr<JitLinks> jit_links_;
  const std::unique_ptr<ModuleReferences> module_references_;
  const std::unique_ptr<PrimaryContexts> primary_contexts_;
  const std::unique_ptr<SessionMemory> memory_;
  const std::unique_ptr<Sharing> sharing_;  // of the memory's heap
  const std::unique_ptr<ConditionalBodies> conditional_bodies_;
  const std::unique_ptr<CaptureTargets> capture_targets_;
  const std::unique_ptr<HostCopyInstances> host_copies_;
  const std::unique_ptr<WatchedEvents> watched_events_;
  const std::unique_ptr<StreamVisits> stream_visits_;
  const std::unique_ptr<HostFunctions> host_functions_;  // the driver's threads may be inside one until it has gone
};

}  // namespace tessera
