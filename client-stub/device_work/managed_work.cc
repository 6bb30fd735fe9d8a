#include "client-stub/device_work/managed_work.h"

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"

namespace tessera {

ManagedWork::ManagedWork(BasicCall& call, HandleId stream) {
  ManagedMemory& memory = ManagedMemory::Of(call.session());
  if (!memory.any() || call.capturing()) return;
  memory_ = &memory;
  Begin(call, ManagedUse{NameOf(call.context(), stream), Range{}});
}

ManagedWork::ManagedWork(BasicCall& call, HandleId stream, const Range& written, const Range& read) {
  ManagedMemory& memory = ManagedMemory::Of(call.session());
  if (!memory.any() || call.capturing()) return;
  const auto managed = [&](const Range& range) {
    if (range.bytes == 0) return false;
    const auto allocation = call.session().memory().device().Find(range.base);
    return allocation && allocation->kind == DeviceAllocation::Kind::kManaged;
  };
  memory_ = &memory;
  if (managed(read)) Begin(call, ManagedUse{NameOf(call.context(), stream), read, true});
  if (result_ == CUDA_SUCCESS && managed(written)) Begin(call, ManagedUse{NameOf(call.context(), stream), written});
}

void ManagedWork::Begin(BasicCall& call, const ManagedUse& use) {
  result_ = memory_->Prepare(use);
  if (result_ != CUDA_SUCCESS) call.Fail(result_);
  uses_[count_++] = use;
}

ManagedWork::~ManagedWork() {
  if (result_ != CUDA_SUCCESS) return;
  for (int i = 0; i < count_; ++i) memory_->Note(uses_[i]);
}

}  // namespace tessera
