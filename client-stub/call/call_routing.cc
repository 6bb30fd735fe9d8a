// Which session a call is for, when the process has several servers.

#include "client-stub/call/call.h"
#include "client-stub/graphs/device_graphs.h"
#include "client-stub/servers/address_owner.h"
#include "client-stub/session/client.h"
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

void Call::MoveTo(Session& session, const Context* context) {
  routed_ = true;
  if (session_ == &session) return;
  session_ = &session;
  moved_ = true;
  if (context == nullptr) context = session.contexts().AnyActive(-1);
  context_ = context == nullptr ? HandleId() : context->handle;
  if (ok() && info_.deferred_errors) result_ = session.deferred_errors().Take(thread_->number, context);
}

void Call::MoveTo(const Call& call) {
  session_ = call.session_;
  context_ = call.context_;
  routed_ = call.routed_;
  moved_ = call.moved_;
}

void Call::ActIn(HandleId context) {
  if (context_ == context) return;
  context_ = context;
  moved_ = true;
}

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

CUdevice Call::DeviceNumber(CUdevice device) {
  const int number = session_->devices().NumberOf(device);
  if (number >= 0) return number;
  if (SeveralServers() && Client::Get().SessionOfDevice(device) != nullptr) Fail(CUDA_ERROR_INVALID_DEVICE);
  return device;
}

CUmemLocation Call::DeviceNumbers(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) location.id = DeviceNumber(location.id);
  return location;
}

CUmemAllocationProp Call::DeviceNumbers(CUmemAllocationProp properties) {
  properties.location = DeviceNumbers(properties.location);
  return properties;
}

CUmemPoolProps Call::DeviceNumbers(CUmemPoolProps properties) {
  properties.location = DeviceNumbers(properties.location);
  return properties;
}

CUmemAccessDesc Call::DeviceNumbers(CUmemAccessDesc access) {
  access.location = DeviceNumbers(access.location);
  return access;
}

CUdevice Call::Ordinal(int number) const { return session_->devices().OrdinalOf(number); }

CUmemAllocationProp Call::Ordinals(CUmemAllocationProp properties) const {
  if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) properties.location.id = Ordinal(properties.location.id);
  return properties;
}

}  // namespace tessera
