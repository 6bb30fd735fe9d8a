// Which session a call is for, when the process has several servers.

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/client.h"
#include "client-stub/session/device_graph_table.h"
#include "client-stub/streams/stream_state.h"

namespace tessera {
namespace {

// The context that an object belongs to; null when that is not known here.
const Context* ContextOf(Session& session, HandleId id) {
  HandleId context;
  switch (id.kind()) {
    case HandleKind::kContext: context = id; break;
    case HandleKind::kStream:
      if (const StreamInfo* stream = Streams().Find(id)) context = stream->context;
      break;
    case HandleKind::kEvent:
      if (const EventInfo* event = Events().Find(id)) context = event->context;
      break;
    default: break;
  }
  const Context* found = session.contexts().Find(reinterpret_cast<CUcontext>(context.value()));
  return found != nullptr && found->active() ? found : nullptr;
}

}  // namespace

void Call::RouteToDevice(CUdevice device) {
  if (routed_ || !ok()) return;
  if (Session* session = Client::Get().SessionOfDevice(device)) MoveTo(*session, session->contexts().AnyActive(device));
}

void Call::RouteToDevices(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) RouteToDevice(location.id);
}

void Call::RouteToHandle(uint64_t handle) {
  if (routed_ || !ok()) return;
  const HandleId id(handle);
  if (id.kind() == HandleKind::kLibrary || id.kind() == HandleKind::kKernel) return;
  Session* session = Client::Get().SessionOf(id);
  // A dead handle decides nothing: it is unknown wherever the call goes.
  if (session != nullptr && session->handles().IsLive(id)) MoveTo(*session, ContextOf(*session, id));
}

void Call::RouteToHandle(CUgraphExec handle) { RouteToHandle(DeviceGraphs::Process().IdOf(handle).value()); }

void Call::RouteToAddress(uint64_t address) {
  if (routed_ || !ok() || address == 0) return;
  const AddressOwner owner = OwnerOf(address);
  if (owner.session != nullptr) MoveTo(*owner.session, owner.context);
}

}  // namespace tessera
