#include "client-stub/device_work/device_work.h"

#include "client-stub/device_work/mirrored_work.h"

namespace tessera {

CUresult WorkOnAnything::Around(Call& call, std::span<const HandleId> streams, bool managed,
                                const std::function<CUresult()>& append) {
  if (streams.empty()) return append();
  MirroredWork mirrored(call, streams.front());
  if (mirrored.result() != CUDA_SUCCESS) return mirrored.result();
  std::optional<ManagedWork> used;
  if (managed && used.emplace(call, streams.front()).result() != CUDA_SUCCESS) return used->result();
  const CUresult result = Around(call, streams.subspan(1), managed, append);
  return result == CUDA_SUCCESS ? mirrored.Appended() : result;
}

void WorkOnRanges::Begin(HandleId stream, const Range& written, const Range& read) {
  result_ = call_.session().memory().mirrors().Tell(call_);
  if (result_ == CUDA_SUCCESS) result_ = managed_.emplace(call_, stream, written, read).result();
}

}  // namespace tessera
