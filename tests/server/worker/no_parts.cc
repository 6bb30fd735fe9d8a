// The tests of the worker's core have no domains.
#include "server/worker/session_parts.h"

namespace tessera {

class BlobStore {};
class CaptureTargets {};
class ConditionalBodies {};
class HostCopyInstances {};
class HostFunctions {};
class LayoutTable {};
class JitLinks {};
class LoadedImages {};
class ModuleReferences {};
class PrimaryContexts {};
class SessionMemory {};
class Sharing {};
class StreamVisits {};
class WatchedEvents {};

SessionParts::SessionParts(Worker&) {}
SessionParts::~SessionParts() = default;

}  // namespace tessera
