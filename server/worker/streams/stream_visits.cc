#include "server/worker/streams/stream_visits.h"

#include <atomic>
#include <chrono>
#include <set>
#include <span>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/completion.h"
#include "server/worker/stream_words.h"
#include "server/worker/streams/host_function.h"
#include "server/worker/trace_log.h"
#include "server/worker/worker.h"

namespace tessera {

// The words of a context.
struct StreamVisits::Words {
  explicit Words(std::shared_ptr<StreamWords> known) : known(std::move(known)) {}

  const std::shared_ptr<StreamWords> known;
  // Under the mutex of StreamVisits.
  std::vector<uint64_t> handed = std::vector<uint64_t>(kStreamsMax);
  std::map<size_t, std::set<uint64_t>> early;  // answered before one that came before them
  std::vector<size_t> free;
};

CUresult StreamVisits::Enqueue(CallContext& call, HandleId id, CUstream stream, uint64_t function, const WrittenRange& written,
                               bool holds) {
  const std::shared_ptr<Words> words = WordsFor(call, stream);
  const StreamKey key = KeyOfStream(call, id, stream);
  Line line;
  uint64_t number = 0;
  if (words == nullptr || !Next(key, words, &line, &number)) {
    return worker_.parts().host_functions().Launch(stream, function, HostFunctions::Form::kHostFunction, false, written);
  }
  AnswerHub& answers = worker_.answers();
  HeldStreams& held = worker_.gate().held_streams();
  const HeldStreams::Wait wait = holds ? held.Expect(stream, worker_.CurrentContext()) : HeldStreams::Wait();
  const auto held_number = std::make_shared<std::atomic<uint64_t>>(0);
  const auto trace = TraceOf(call);
  const auto over = [this, key, line, number, &held, held_number, trace] {
    if (trace != nullptr) {
      trace->end_ns = MonotonicNs();
      worker_.trace().Add(*trace);
    }
    held.Ended(held_number->load());
    Answered(key, line, number);
  };
  const uint64_t request = answers.Open(over);
  const auto reached = [this, over, request, function, written, &held, wait, held_number, trace](CUresult result) {
    if (trace != nullptr) trace->begin_ns = MonotonicNs();
    bool asked = result == CUDA_SUCCESS;
    if (asked && written.segment != 0) {
      const Status published = worker_.channel().Publish(written.segment, written.offset, written.bytes);
      if (!published.ok()) worker_.End(published);
    }
    if (asked) held_number->store(held.Began(wait));
    asked = asked && worker_.SendNotice(NoticeKind::kHostFunction, request, CUDA_SUCCESS, std::as_bytes(std::span(&function, 1)));
    if (asked) return;
    worker_.SendNotice(NoticeKind::kHostFunctionReleased, function);
    worker_.answers().Cancel(request);
    over();
  };
  CUresult result = request == 0 ? CUDA_ERROR_DEINITIALIZED : worker_.completion().WhenReached(stream, reached);
  if (result != CUDA_SUCCESS) {
    answers.Cancel(request);
    over();
    return result;
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<TraceEvent> StreamVisits::TraceOf(const CallContext& call) {
  if (!worker_.trace().on()) return nullptr;
  auto event = std::make_shared<TraceEvent>();
  event->sequence = call.header().sequence;
  event->call = kTraceVisit;
  return event;
}

CUresult StreamVisits::Await(CallContext& call, HandleId id, CUstream stream, uint64_t ahead) {
  if (WordsFor(call, stream) == nullptr) return CUDA_SUCCESS;  // its visits were host functions
  Line line;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    const auto found = lines_.find(KeyOfStream(call, id, stream));
    if (found == lines_.end()) return CUDA_SUCCESS;  // all are over
    line = found->second;
    number = line.words->handed[line.index];
  }
  const StreamWords& words = *line.words->known;
  if (ahead >= number || words.word(line.index).load(std::memory_order_acquire) >= number - ahead) return CUDA_SUCCESS;
  return worker_.driver().cuStreamWaitValue64_v2(stream, words.address(line.index), number - ahead, CU_STREAM_WAIT_VALUE_GEQ);
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
  if (words != nullptr) words->known->EndContext(worker_.driver());
}

std::shared_ptr<StreamVisits::Words> StreamVisits::WordsFor(CallContext& call, CUstream stream) {
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  CUcontext own = worker_.CurrentContext();
  if (!legacy && worker_.driver().cuStreamGetCtx(stream, &own) != CUDA_SUCCESS) own = nullptr;
  const bool plain = own == worker_.CurrentContext() && call.holder() == HandleId(call.header().context);
  return plain ? WordsOf(own) : nullptr;
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
  auto known = StreamWords::Make(worker_.driver(), kStreamsMax * sizeof(uint64_t),
                                 "copies of registered memory can be held up by host functions");
  if (known == nullptr) return nullptr;
  auto words = std::make_shared<Words>(std::move(known));
  for (size_t index = kStreamsMax; index > 0; --index) words->free.push_back(index - 1);
  return words;
}

bool StreamVisits::Next(const StreamKey& key, const std::shared_ptr<Words>& words, Line* line, uint64_t* number) {
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

void StreamVisits::Answered(const StreamKey& key, const Line& line, uint64_t number) {
  Words& words = *line.words;
  MutexLock lock(mutex_);
  const std::atomic_ref<uint64_t> word = words.known->word(line.index);
  uint64_t answered = word.load(std::memory_order_relaxed);
  if (number != answered + 1) {
    if (number > answered) words.early[line.index].insert(number);
    return;
  }
  ++answered;
  if (const auto early = words.early.find(line.index); early != words.early.end()) {
    while (early->second.erase(answered + 1) != 0) ++answered;
    if (early->second.empty()) words.early.erase(early);
  }
  word.store(answered, std::memory_order_release);
  if (answered != words.handed[line.index]) return;
  const auto found = lines_.find(key);
  if (found == lines_.end() || found->second.words != line.words || found->second.index != line.index) return;
  lines_.erase(found);
  words.free.push_back(line.index);
  if (lines_.empty()) all_answered_.notify_all();
}

}  // namespace tessera
