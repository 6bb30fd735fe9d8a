#include "server/worker/done_words.h"

#include <utility>

#include "generated/driver_table.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {
namespace {

constexpr size_t kUnread = kDoneWord + 1;
constexpr size_t kWords = kUnread + 1;

}  // namespace

void DoneWords::BeginContext(CUcontext context) {
  const CUcontext before = contexts_.current();
  if (contexts_.Set(context) != CUDA_SUCCESS) return;
  std::shared_ptr<StreamWords> made = StreamWords::Make(driver_, kWords * sizeof(uint64_t), "waits take a microsecond more");
  if (contexts_.Set(before) != CUDA_SUCCESS) contexts_.Forget();
  if (made == nullptr) return;
  MutexLock lock(mutex_);
  words_[context] = std::move(made);
}

std::shared_ptr<StreamWords> DoneWords::Words() {
  const CUcontext context = contexts_.current();
  if (context == nullptr) return nullptr;
  MutexLock lock(mutex_);
  const auto found = words_.find(context);
  return found == words_.end() ? nullptr : found->second;
}

bool DoneWords::WriteUnread(CUstream stream) {
  const std::shared_ptr<StreamWords> words = Words();
  return words != nullptr &&
         driver_.cuStreamWriteValue64_v2(stream, words->address(kUnread), 0, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
}

DoneWord DoneWords::WriteBehind(CUstream stream) {
  std::shared_ptr<StreamWords> words = Words();
  if (words == nullptr) return {};
  const uint64_t number = ++last_number_;
  const CUresult result =
      driver_.cuStreamWriteValue64_v2(stream, words->address(kDoneWord), number, CU_STREAM_WRITE_VALUE_DEFAULT);
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
