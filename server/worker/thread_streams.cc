#include "server/worker/thread_streams.h"

#include "generated/driver_table.h"

namespace tessera {

ThreadStreams::~ThreadStreams() {
  // The contexts may be gone by now, and with them the streams; the driver frees what is left when the process ends.
}

CUresult ThreadStreams::Get(uint32_t thread, CUcontext context, CUstream* stream) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  // The lock stays held over the driver's call: a second caller for the same pair can only be a helper of the same client
  // thread, and creation happens once.
  MutexLock lock(mutex_);
  const auto key = std::make_pair(thread, context);
  if (const auto found = streams_.find(key); found != streams_.end()) {
    *stream = found->second;
    return CUDA_SUCCESS;
  }
  if (streams_.size() >= kStreamsMax) return CUDA_ERROR_OUT_OF_MEMORY;
  CUstream created = nullptr;
  const CUresult result = driver_.cuStreamCreate(&created, CU_STREAM_DEFAULT);
  if (result != CUDA_SUCCESS) return result;
  streams_.emplace(key, created);
  *stream = created;
  return CUDA_SUCCESS;
}

std::vector<std::pair<uint32_t, CUstream>> ThreadStreams::OfContext(CUcontext context) {
  std::vector<std::pair<uint32_t, CUstream>> found;
  MutexLock lock(mutex_);
  for (const auto& [key, stream] : streams_) {
    if (key.second == context) found.emplace_back(key.first, stream);
  }
  return found;
}

std::vector<CUstream> ThreadStreams::EndThread(uint32_t thread) {
  std::vector<CUstream> streams;
  MutexLock lock(mutex_);
  auto next = streams_.lower_bound({thread, nullptr});
  while (next != streams_.end() && next->first.first == thread) {
    streams.push_back(next->second);
    next = streams_.erase(next);
  }
  return streams;
}

void ThreadStreams::EndContext(CUcontext context) {
  MutexLock lock(mutex_);
  for (auto next = streams_.begin(); next != streams_.end();) {
    if (next->first.second != context) {
      ++next;
      continue;
    }
    driver_.cuStreamDestroy_v2(next->second);
    next = streams_.erase(next);
  }
}

}  // namespace tessera
