#include "server/worker/session_parts.h"

#include "server/worker/code/blob_store.h"
#include "server/worker/code/driver_image.h"
#include "server/worker/code/jit_links.h"
#include "server/worker/code/layout_table.h"
#include "server/worker/code/module_references.h"
#include "server/worker/contexts/primary_contexts.h"
#include "server/worker/graphs/graph_handles.h"
#include "server/worker/graphs/host_copy_node.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/sharing/sharing.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/streams/stream_visits.h"
#include "server/worker/streams/watched_events.h"
#include "server/worker/worker.h"

namespace tessera {

SessionParts::SessionParts(Worker& worker)
    : blobs_(std::make_unique<BlobStore>(worker)),
      loaded_images_(std::make_unique<LoadedImages>()),
      layouts_(std::make_unique<LayoutTable>(worker)),
      jit_links_(std::make_unique<JitLinks>()),
      module_references_(std::make_unique<ModuleReferences>()),
      primary_contexts_(std::make_unique<PrimaryContexts>(worker)),
      memory_(std::make_unique<SessionMemory>(worker)),
      sharing_(std::make_unique<Sharing>(worker, memory_->heap())),
      conditional_bodies_(std::make_unique<ConditionalBodies>()),
      capture_targets_(std::make_unique<CaptureTargets>()),
      host_copies_(std::make_unique<HostCopyInstances>()),
      watched_events_(std::make_unique<WatchedEvents>(worker)),
      stream_visits_(std::make_unique<StreamVisits>(worker)),
      host_functions_(std::make_unique<HostFunctions>(worker)) {}

SessionParts::~SessionParts() = default;

}  // namespace tessera
