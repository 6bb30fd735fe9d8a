#include "server/worker/memory/charges.h"

#include "protocol/channel/channel.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {

Charges::Charges(Worker& worker)
    : ledger_(worker.driver(), worker.options().gate, worker.channel().stop()),
      pools_(worker.driver(), ledger_),
      graphs_(worker.driver(), ledger_),
      limits_(worker.driver(), ledger_) {
  worker.objects().OnRemoved([this](HandleId id, uint64_t object, ObjectTable::Removal how) {
    if (how == ObjectTable::Removal::kReplaced) return Lose(id, object);
    switch (id.kind()) {
      case HandleKind::kMemoryAllocation: return physical_.Released(id);
      case HandleKind::kMemoryPool: return pools_.Destroyed(reinterpret_cast<CUmemoryPool>(object));
      case HandleKind::kGraphExec:
        graphs_.ForgetInstance(reinterpret_cast<CUgraphExec>(object));
        return needs_.Forget(reinterpret_cast<CUgraphExec>(object));
      case HandleKind::kArray:
      case HandleKind::kMipmappedArray:
      case HandleKind::kModule:
      case HandleKind::kLibrary: return objects_.Drop(id.value());
      case HandleKind::kContext: return limits_.Forget(id.value());
      default: return;
    }
  });
}

void Charges::Lose(HandleId id, uint64_t object) {
  switch (id.kind()) {
    case HandleKind::kMemoryAllocation: return physical_.Lost(id);
    case HandleKind::kGraphExec:
      graphs_.ForgetInstance(reinterpret_cast<CUgraphExec>(object));
      return needs_.Forget(reinterpret_cast<CUgraphExec>(object));
    case HandleKind::kArray:
    case HandleKind::kMipmappedArray:
    case HandleKind::kModule:
    case HandleKind::kLibrary: return objects_.Lose(id.value());
    default: return;  // pools and contexts are counted on as they are
  }
}

void Charges::Measure(CUdevice device) {
  if (!ledger_.limited(device)) return;
  pools_.Measure(device);
  graphs_.Measure(device);
}

bool Charges::Trim(CUdevice device) {
  if (!ledger_.limited(device)) return false;
  const bool pools = pools_.Trim(device);
  return graphs_.Trim(device) || pools;
}

}  // namespace tessera
