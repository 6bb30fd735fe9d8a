#include "server/worker/done_words.h"

#include <utility>

#include "generated/driver_table.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {

void DoneWords::BeginContext(CUcontext context) {
  const CUcontext before = contexts_.current();
  if (contexts_.Set(context) != CUDA_SUCCESS) return;
  std::shared_ptr<StreamWords> made = StreamWords::Make(driver_, sizeof(uint64_t), "waits take a microsecond more");
  if (contexts_.Set(before) != CUDA_SUCCESS) contexts_.Forget();
  if (made == nullptr) return;
  MutexLock lock(mutex_);
  words_[context] = std::move(made);
}

DoneWord DoneWords::WriteBehind(CUstream stream) {
  const CUcontext context = contexts_.current();
  if (context == nullptr) return {};
  std::shared_ptr<StreamWords> words;
  {
    MutexLock lock(mutex_);
    if (const auto found = words_.find(context); found != words_.end()) words = found->second;
  }
  if (words == nullptr) return {};
  const uint64_t number = ++last_number_;
  const CUresult result = driver_.cuStreamWriteValue64_v2(stream, words->address(0), number, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_SUCCESS) return {std::move(words), number};
  return {};  // a context that has failed, mostly: the event says so
}

void DoneWords::EndContext(CUcontext context) {
  std::shared_ptr<StreamWords> words;
  {
    MutexLock lock(mutex_);
    const auto found = words_.find(context);
    if (found == words_.end()) return;
    words = std::move(found->second);
    words_.erase(found);
  }
  words->EndContext(driver_);
}

}  // namespace tessera
