#include "client-stub/streams/helper_streams.h"

#include <algorithm>

#include "generated/client/stream.h"

namespace tessera {

CUresult HelperStreams::Take(const Context& context, HandleId* stream) {
  {
    MutexLock lock(mutex_);
    std::vector<Helper>& helpers = helpers_[context.handle.value()];
    // A primary context that was reset has none of its streams any more.
    std::erase_if(helpers,
                  [&](const Helper& helper) { return !context.session->handles().IsLive(helper.stream, HandleKind::kStream); });
    const auto least =
        std::min_element(helpers.begin(), helpers.end(), [](const Helper& a, const Helper& b) { return a.users < b.users; });
    if (least != helpers.end() && (least->users == 0 || helpers.size() >= kStreamsMax)) {
      ++least->users;
      *stream = least->stream;
      return CUDA_SUCCESS;
    }
  }
  CUstream made = nullptr;
  const CUresult result = Enter_cuStreamCreate(false, &made, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) return result;
  *stream = HandleId(reinterpret_cast<uint64_t>(made));
  MutexLock lock(mutex_);
  helpers_[context.handle.value()].push_back({*stream, 1});
  return CUDA_SUCCESS;
}

void HelperStreams::Return(HandleId context, HandleId stream) {
  MutexLock lock(mutex_);
  for (Helper& helper : helpers_[context.value()]) {
    if (helper.stream == stream) --helper.users;
  }
}

}  // namespace tessera
