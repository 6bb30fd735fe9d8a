#include "client-stub/root/attach_session.h"

#include <memory>
#include <utility>

#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/root/attached_memory.h"
#include "client-stub/root/host_function_runs.h"
#include "client-stub/root/worker_traces.h"
#include "client-stub/session/client.h"
#include "client-stub/session/device_graph_table.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/stream_state.h"

namespace tessera {

void AttachSession(Session& session) {
  auto owned = std::make_unique<ClientMemory>(session);
  ClientMemory* const memory = owned.get();
  auto owned_managed = std::make_unique<ManagedMemory>(session, memory->windows().device);
  ManagedMemory* const managed = owned_managed.get();
  AttachedMemory::Process().Keep(std::move(owned), std::move(owned_managed));
  session.Attach(memory, managed);
  session.contexts().OnEnd([](const Context& context) { DeviceGraphs::Process().EndContext(context.handle); });
  session.contexts().OnEnd([&session](const Context& context) { Streams().ForgetContext(session, context.handle); });
  session.contexts().OnEnd([managed](const Context& context) { managed->EndContext(context.handle); });
  session.contexts().OnEnd([memory](const Context& context) { memory->EndContext(context.handle); });
  RunHostFunctionsOf(session);
  if (Client::Get().trace() != nullptr) StartWorkerTrace(session);
}

}  // namespace tessera
