// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "generated/server/dispatch.h"

#include <algorithm>
#include <iterator>

#include "generated/server/toy.h"
namespace tessera {

namespace {

struct Entry {
  uint32_t id;
  const char* name;
  void (*handler)(CallContext&, Decoder&);
  bool blocking;
  bool aside;
  GateKind gate;
  void (*turn)(CallContext&, Decoder&);
};

// Sorted by id.
constexpr Entry kEntries[] = {
    {0x0001, "cuToyCreate", Handle_cuToyCreate, false, false, GateKind::kNone, nullptr},
    {0x0002, "cuToyDestroy", Handle_cuToyDestroy, false, false, GateKind::kNone, nullptr},
    {0x0004, "cuToyRename", Handle_cuToyRename, true, false, GateKind::kMemory, nullptr},
    {0x0005, "cuToyPlay_v2", Handle_cuToyPlay_v2, false, false, GateKind::kOrder, nullptr},
    {0x0006, "cuToyGetColour", Handle_cuToyGetColour, false, false, GateKind::kNone, nullptr},
    {0x0007, "cuToyPaint", Handle_cuToyPaint, false, true, GateKind::kNone, nullptr},
    {0x0008, "cuToyFly", nullptr, false, false, GateKind::kNone, nullptr},
    {0x0009, "cuToyName", nullptr, false, false, GateKind::kNone, nullptr},
    {0x000a, "tesseraToyTick", Handle_tesseraToyTick, false, false, GateKind::kNone, nullptr},
    {0x000b, "cuToyThrow", Handle_cuToyThrow, false, false, GateKind::kLaunch, nullptr},
    {0x000c, "cuToyHurl", Handle_cuToyHurl, true, false, GateKind::kGraph, Turn_cuToyHurl},
};

const Entry* Find(uint32_t id) {
  const Entry* entry = std::lower_bound(std::begin(kEntries), std::end(kEntries), id,
                                        [](const Entry& e, uint32_t wanted) { return e.id < wanted; });
  return entry != std::end(kEntries) && entry->id == id ? entry : nullptr;
}

}  // namespace

void Dispatch(uint32_t id, CallContext& call, Decoder& in) {
  const Entry* entry = Find(id);
  if (entry == nullptr || entry->handler == nullptr) return call.Malformed();
  entry->handler(call, in);
}

bool IsBlocking(uint32_t id) {
  const Entry* entry = Find(id);
  return entry != nullptr && entry->blocking;
}

void AwaitTurnOf(uint32_t id, CallContext& call, Decoder& in) {
  const Entry* entry = Find(id);
  if (entry != nullptr && entry->turn != nullptr) entry->turn(call, in);
}

bool IsAside(uint32_t id) {
  const Entry* entry = Find(id);
  return entry != nullptr && entry->aside;
}

const char* CallName(uint32_t id) {
  const Entry* entry = Find(id);
  return entry != nullptr ? entry->name : "unknown call";
}

GateKind GateKindOf(uint32_t id) {
  const Entry* entry = Find(id);
  return entry != nullptr ? entry->gate : GateKind::kNone;
}

}  // namespace tessera
