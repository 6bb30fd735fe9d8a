#include "server/worker/streams/stream_visits.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <span>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/completion.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/worker.h"

namespace tessera {

// The memory is this process's own, registered with the driver: it may be written at any time, whatever became of the context.
struct StreamVisits::Words {
  static constexpr size_t kBytes = kStreamsMax * sizeof(uint64_t);

  Words() = default;
  ~Words() {
    if (memory != nullptr && !in_use) munmap(memory, kBytes);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  uint64_t* memory = nullptr;
  CUdeviceptr device = 0;
  bool in_use = false;  // by a driver that could not give it up, so that it stays
  // Under the mutex of StreamVisits.
  std::vector<uint64_t> handed = std::vector<uint64_t>(kStreamsMax);
  std::vector<size_t> free;
};

CUresult StreamVisits::Enqueue(CallContext& call, HandleId id, CUstream stream, uint64_t function,
                               const WrittenRange& written) {
  const HandleId context(call.header().context);
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  CUcontext own = worker_.CurrentContext();
  if (!legacy && worker_.driver().cuStreamGetCtx(stream, &own) != CUDA_SUCCESS) own = nullptr;
  const bool plain = own == worker_.CurrentContext() && call.holder() == context;
  const std::shared_ptr<Words> words = plain ? WordsOf(own) : nullptr;
  Key key{id.value(), 0};
  if (id.value() <= reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD)) {
    key = {legacy ? 0 : call.header().thread, context.value()};
  }
  Line line;
  uint64_t number = 0;
  if (words == nullptr || !Next(key, words, &line, &number)) {
    return worker_.Part<HostFunctions>().Launch(stream, function, HostFunctions::Form::kHostFunction, false, written);
  }
  AnswerHub& answers = worker_.answers();
  const uint64_t request = answers.Open([this, key, line, number] { Answered(key, line, number); });
  const auto reached = [this, key, line, number, request, function, written](CUresult result) {
    bool asked = result == CUDA_SUCCESS;
    if (asked && written.segment != 0) {
      const Status published = worker_.channel().Publish(written.segment, written.offset, written.bytes);
      if (!published.ok()) worker_.End(published);
    }
    asked = asked && worker_.SendNotice(NoticeKind::kHostFunction, request, CUDA_SUCCESS,
                                        std::as_bytes(std::span(&function, 1)));
    if (asked) return;
    worker_.SendNotice(NoticeKind::kHostFunctionReleased, function);
    worker_.answers().Cancel(request);
    Answered(key, line, number);
  };
  CUresult result = request == 0 ? CUDA_ERROR_DEINITIALIZED : worker_.completion().WhenDone(stream, reached);
  if (result != CUDA_SUCCESS) {
    answers.Cancel(request);
    Answered(key, line, number);
    return result;
  }
  // If this is refused what follows does not wait: the program hears of it as of a copy that failed.
  return worker_.driver().cuStreamWaitValue64_v2(stream, line.words->device + line.index * sizeof(uint64_t), number,
                                                 CU_STREAM_WAIT_VALUE_GEQ);
}

void StreamVisits::Settle() {
  constexpr std::chrono::milliseconds kLook(100);  // how late the end of the session may be seen
  MutexLock lock(mutex_);
  while (!lines_.empty() && !worker_.ended()) all_answered_.wait_for(mutex_, kLook);
}

void StreamVisits::EndContext(CUcontext context) {
  std::shared_ptr<Words> words;
  {
    MutexLock lock(mutex_);
    const auto found = words_.find(context);
    if (found == words_.end()) return;
    words = std::move(found->second);
    words_.erase(found);
  }
  if (words == nullptr) return;
  const CUresult result = worker_.driver().cuMemHostUnregister(words->memory);
  if (result == CUDA_SUCCESS) return;
  LogDebug("the words of a context that failed were not unregistered: result {}", int(result));
  words->in_use = true;
}

std::shared_ptr<StreamVisits::Words> StreamVisits::WordsOf(CUcontext context) {
  if (context == nullptr) return nullptr;
  {
    MutexLock lock(mutex_);
    if (const auto found = words_.find(context); found != words_.end()) return found->second;
  }
  std::shared_ptr<Words> words = MakeWords();  // only the executor gets here: nobody else makes them meanwhile
  MutexLock lock(mutex_);
  words_[context] = words;
  return words;
}

std::shared_ptr<StreamVisits::Words> StreamVisits::MakeWords() {
  const DriverTable& driver = worker_.driver();
  CUdevice device = 0;
  int able = 0;
  if (driver.cuStreamWaitValue64_v2 == nullptr || driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device) != CUDA_SUCCESS ||
      able == 0) {
    return nullptr;
  }
  auto words = std::make_shared<Words>();
  void* memory = mmap(nullptr, Words::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  words->memory = static_cast<uint64_t*>(memory);
  CUresult result = driver.cuMemHostRegister_v2(memory, Words::kBytes, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemHostGetDevicePointer_v2(&words->device, memory, 0);
    if (result != CUDA_SUCCESS) driver.cuMemHostUnregister(memory);
  }
  if (result != CUDA_SUCCESS) {
    LogWarning("driver does not register {} bytes for visits of streams: result {}; copies of registered memory can be held up "
               "by host functions", Words::kBytes, int(result));
    return nullptr;
  }
  for (size_t index = kStreamsMax; index > 0; --index) words->free.push_back(index - 1);
  return words;
}

bool StreamVisits::Next(const Key& key, const std::shared_ptr<Words>& words, Line* line, uint64_t* number) {
  MutexLock lock(mutex_);
  auto found = lines_.find(key);
  if (found == lines_.end()) {
    if (words->free.empty()) return false;
    found = lines_.emplace(key, Line{words, words->free.back()}).first;
    words->free.pop_back();
  }
  *line = found->second;
  *number = ++line->words->handed[line->index];
  return true;
}

void StreamVisits::Answered(const Key& key, const Line& line, uint64_t number) {
  Words& words = *line.words;
  MutexLock lock(mutex_);
  std::atomic_ref<uint64_t> word(words.memory[line.index]);
  if (word.load(std::memory_order_relaxed) < number) word.store(number, std::memory_order_release);
  if (word.load(std::memory_order_relaxed) != words.handed[line.index]) return;
  const auto found = lines_.find(key);
  if (found == lines_.end() || found->second.words != line.words || found->second.index != line.index) return;
  lines_.erase(found);
  words.free.push_back(line.index);
  if (lines_.empty()) all_answered_.notify_all();
}

}  // namespace tessera
