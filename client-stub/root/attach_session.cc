#include "client-stub/root/attach_session.h"

#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/root/host_function_runs.h"
#include "client-stub/root/worker_traces.h"
#include "client-stub/session/client.h"
#include "client-stub/session/device_graph_table.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/stream_state.h"

namespace tessera {

void AttachSession(Session& session) {
  auto* const memory = new ClientMemory(session);
  auto* const managed = new ManagedMemory(session, memory->windows().device);
  session.Attach(memory, managed);
  session.contexts().OnEnd([](const Context& context) { DeviceGraphs::Process().EndContext(context.handle); });
  session.contexts().OnEnd([&session](const Context& context) { Streams().ForgetContext(session, context.handle); });
  session.contexts().OnEnd([managed](const Context& context) { managed->EndContext(context.handle); });
  session.contexts().OnEnd([memory](const Context& context) { memory->EndContext(context.handle); });
  RunHostFunctionsOf(session);
  if (Client::Get().trace() != nullptr) StartWorkerTrace(session);
}

}  // namespace tessera
