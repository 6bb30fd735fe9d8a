#include "protocol/channel/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "protocol/base/check.h"

namespace tessera {
namespace {

// The first two words of every record.
struct Prefix {
  uint32_t size_bytes;
  uint32_t id;
};

// Reads words that the peer may be changing: once, each with one access.
Prefix ReadPrefix(const std::byte* from) {
  const uint64_t both = __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_RELAXED);
  return Prefix{static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
}

// The half of a position that a futex can wait on (x86-64 is little-endian: the low word comes first).
const void* FutexWord(const std::atomic<uint64_t>& position) { return &position; }

Status RulesBroken(const char* what) {
  return Status(StatusCode::kProtocolViolation, std::string("the peer broke the rules of a ring: ") + what);
}

// ThreadSanitizer knows synchronisation by its address, and two ends in one process (tests) have their ring at two. It is told
// that whoever moves a position passes on what it did to whoever reads one. The name is common to all rings: it sees races
// inside of each side, which is what it is run for.
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
char g_positions;
void BeforeMove() { __tsan_release(&g_positions); }
void AfterLook() { __tsan_acquire(&g_positions); }
#else
void BeforeMove() {}
void AfterLook() {}
#endif

}  // namespace

RingMemory RingMemory::At(std::byte* base, uint32_t size_bytes) {
  CHECK(std::has_single_bit(size_bytes) && size_bytes >= kRingBytesMin && size_bytes <= kRingBytesMax);
  return RingMemory{reinterpret_cast<RingHeader*>(base), base + kRingHeaderBytes, size_bytes};
}

uint32_t RingMemory::RoundSize(uint64_t bytes) {
  return static_cast<uint32_t>(std::bit_ceil(std::clamp<uint64_t>(bytes, kRingBytesMin, kRingBytesMax)));
}

// --- producer ---

RingProducer::RingProducer(const RingMemory& memory) : memory_(memory) {}

std::optional<RingProducer::View> RingProducer::Look() {
  const uint64_t head_before = head_.load(std::memory_order_acquire);
  const uint64_t tail = memory_.header->tail.load(std::memory_order_seq_cst);
  AfterLook();
  const uint64_t head = head_.load(std::memory_order_acquire);
  if (tail <= head && head - tail <= memory_.size_bytes && tail % kRingRecordAlignment == 0) return View{head, tail};
  // With a head that moved, another thread may have appended into space that was free only after our look at the tail.
  if (head == head_before) broken_.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

uint64_t RingProducer::Needed(uint64_t head, size_t size) const {
  const uint64_t to_end = memory_.size_bytes - (head & (memory_.size_bytes - 1));
  return size <= to_end ? size : size + to_end;
}

bool RingProducer::Fits(const View& view, size_t size) const {
  return memory_.size_bytes - (view.head - view.tail) >= Needed(view.head, size);
}

std::byte* RingProducer::ReserveSlowly(size_t size) {
  reserved_bytes_ = 0;
  if (size < kRingRecordBytesMin || size > record_bytes_max()) return nullptr;
  const uint64_t rounded = RoundUp(size);
  const uint64_t head = head_.load(std::memory_order_relaxed);
  if (!Fits(View{head, seen_tail_}, rounded)) {
    const std::optional<View> view = Look();
    if (!view) return nullptr;
    seen_tail_ = view->tail;
    if (!Fits(*view, rounded)) return nullptr;
  }
  if (broken()) return nullptr;

  const uint64_t needed = Needed(head, rounded);
  uint64_t begin = head;
  if (needed != rounded) {
    const Prefix pad{static_cast<uint32_t>(needed - rounded), kRingPadId};
    std::memcpy(memory_.data + (head & (memory_.size_bytes - 1)), &pad, sizeof(pad));
    begin += pad.size_bytes;
  }
  return Reserve(begin, rounded, size);
}

uint64_t RingProducer::Finish() {
  CHECK(reserved_bytes_ != 0);
  std::memcpy(memory_.data + (reserved_begin_ & (memory_.size_bytes - 1)), &reserved_bytes_, sizeof(reserved_bytes_));
  const uint64_t head = reserved_begin_ + reserved_bytes_;
  reserved_bytes_ = 0;
  return head;
}

void RingProducer::Commit() { Publish(Finish()); }

void RingProducer::CommitLightly() {
  const uint64_t head = Finish();
  BeforeMove();
  head_.store(head, std::memory_order_release);
  // The look at the count may come before the head is visible to the consumer. So both may miss each other: the consumer
  // announces its sleep after our look, and its own look at the head comes before the store has left this core, which takes it
  // some hundred nanoseconds. What it sees is the head of long ago, no half of a record; and at its second look the store has
  // long been there, whatever this thread does meanwhile: a store that was executed needs nobody's help to arrive.
  memory_.header->head.store(head, std::memory_order_release);
  WakeSleeper(memory_.header->consumer_sleeps.load(std::memory_order_relaxed));
}

bool RingProducer::TryAppend(std::span<const std::byte> record) {
  std::byte* to = TryReserve(record.size());
  if (to == nullptr) return false;
  std::memcpy(to, record.data(), record.size());
  Commit();
  return true;
}

void RingProducer::Publish(uint64_t head) {
  BeforeMove();
  head_.store(head, std::memory_order_release);
  // Sequentially consistent, as are the consumer's count of sleeps and its second look at the head: either it sees this
  // head, or we see its new count.
  memory_.header->head.store(head, std::memory_order_seq_cst);
  WakeSleeper(memory_.header->consumer_sleeps.load(std::memory_order_seq_cst));
}

void RingProducer::WakeSleeper(uint32_t sleeps) {
  if (sleeps == woken_ || (sleeps & 1) == 0) return;
  woken_ = sleeps;
  FutexWakeAll(FutexWord(memory_.header->head));
}

Status RingProducer::WaitForSpace(size_t size, uint64_t deadline_ns, const StopPredicate& stop) {
  if (size < kRingRecordBytesMin || size > record_bytes_max()) {
    return Status(StatusCode::kInvalidArgument, "a record of " + std::to_string(size) + " bytes does not belong into a ring of " +
                                                    std::to_string(memory_.size_bytes));
  }
  const uint64_t rounded = RoundUp(size);
  const auto ready = [&] {
    const std::optional<View> view = Look();
    return (view && Fits(*view, rounded)) || broken();
  };
  const auto sleep = [&](uint64_t timeout_ns) {
    memory_.header->producer_sleeps.fetch_add(1, std::memory_order_seq_cst);
    const uint64_t tail = memory_.header->tail.load(std::memory_order_seq_cst);
    if (ready()) return;
    FutexWait(FutexWord(memory_.header->tail), static_cast<uint32_t>(tail), timeout_ns);
  };
  RETURN_IF_ERROR(SpinThenSleep(spin_, ready, sleep, deadline_ns, stop));
  if (broken()) return RulesBroken("impossible tail");
  return Status::Ok();
}

Status RingProducer::WaitForRelease(uint64_t position, uint64_t deadline_ns, const StopPredicate& stop) {
  const auto ready = [&] { return memory_.header->tail.load(std::memory_order_seq_cst) != position || broken(); };
  const auto sleep = [&](uint64_t timeout_ns) {
    memory_.header->producer_sleeps.fetch_add(1, std::memory_order_seq_cst);
    if (!ready()) FutexWait(FutexWord(memory_.header->tail), static_cast<uint32_t>(position), timeout_ns);
  };
  RETURN_IF_ERROR(SpinThenSleep(spin_, ready, sleep, deadline_ns, stop));
  if (broken()) return RulesBroken("impossible tail");
  return Status::Ok();
}

void RingProducer::WakeWaiters() { FutexWakeAll(FutexWord(memory_.header->tail)); }

void RingProducer::CallReader() { FutexWakeAll(FutexWord(memory_.header->head)); }

void RingProducer::WriteAt(uint64_t position, std::span<const std::byte> bytes) {
  const size_t offset = position & (memory_.size_bytes - 1);
  const size_t first = std::min<size_t>(bytes.size(), memory_.size_bytes - offset);
  if (first != 0) std::memcpy(memory_.data + offset, bytes.data(), first);
  if (first != bytes.size()) std::memcpy(memory_.data, bytes.data() + first, bytes.size() - first);
}

void RingProducer::PublishTo(uint64_t position) { Publish(position); }

Result<uint64_t> RingProducer::Released() {
  std::optional<View> view = Look();
  while (!view && !broken()) view = Look();  // another thread published meanwhile
  if (broken()) return RulesBroken("impossible tail");
  return view->tail;
}

Status RingProducer::GoOn() {
  head_.store(memory_.header->head.load(std::memory_order_seq_cst), std::memory_order_release);
  const std::optional<View> view = Look();
  if (!view || view->head % kRingRecordAlignment != 0) return RulesBroken("impossible head or tail");
  seen_tail_ = view->tail;
  return Status::Ok();
}

// --- consumer ---

std::byte* RecordBuffer::Take(size_t size) {
  if (size > capacity_) {
    const size_t capacity = std::bit_ceil(size);
    memory_.reset(new std::byte[capacity]);
    capacity_ = capacity;
  }
  return memory_.get();
}

RingConsumer::RingConsumer(const RingMemory& memory) : memory_(memory) {}

std::span<const std::byte> RingConsumer::Break() {
  broken_.store(true, std::memory_order_relaxed);
  return {};
}

uint64_t RingConsumer::Published() {
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (broken()) return tail;
  const uint64_t head = memory_.header->head.load(std::memory_order_acquire);
  AfterLook();
  if (head < seen_head_ || head - tail > memory_.size_bytes || head % kRingRecordAlignment != 0) {
    Break();
    return tail;
  }
  seen_head_ = head;
  return head;
}

std::span<const std::byte> RingConsumer::Peek() {
  for (;;) {
    if (broken()) return {};
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    uint64_t available = seen_head_ - tail;
    if (available == 0) {
      available = Published() - tail;
      if (available == 0) return {};
    }
    const size_t offset = tail & (memory_.size_bytes - 1);
    const size_t to_end = memory_.size_bytes - offset;
    const Prefix prefix = ReadPrefix(memory_.data + offset);
    const uint32_t size = prefix.size_bytes;
    if (size % kRingRecordAlignment != 0 || size == 0 || size > available || size > to_end) return Break();
    if (prefix.id == kRingPadId) {
      if (size != to_end) return Break();
      peeked_bytes_ = size;
      Release();
      continue;
    }
    if (size < kRingRecordBytesMin || size > memory_.size_bytes / 4) return Break();
    peeked_bytes_ = size;
    return {memory_.data + offset, size};
  }
}

void RingConsumer::Release() {
  CHECK(peeked_bytes_ != 0);
  const uint64_t tail = tail_.load(std::memory_order_relaxed) + peeked_bytes_;
  peeked_bytes_ = 0;
  ReleaseTo(tail);
}

void RingConsumer::ReleaseTo(uint64_t position) {
  BeforeMove();
  tail_.store(position, std::memory_order_relaxed);
  // Against the producer's count of sleeps, as in RingProducer::Publish.
  memory_.header->tail.store(position, std::memory_order_seq_cst);
  const uint32_t sleeps = memory_.header->producer_sleeps.load(std::memory_order_seq_cst);
  if (sleeps == woken_) return;
  // With half of the ring free any record fits, pad included. Waking earlier would have producer and consumer take turns
  // for every single record.
  if (seen_head_ - position > memory_.size_bytes / 2) return;
  woken_ = sleeps;
  FutexWakeAll(FutexWord(memory_.header->tail));
}

void RingConsumer::ReadAt(uint64_t position, std::span<std::byte> bytes) const {
  const size_t offset = position & (memory_.size_bytes - 1);
  const size_t first = std::min<size_t>(bytes.size(), memory_.size_bytes - offset);
  if (first != 0) std::memcpy(bytes.data(), memory_.data + offset, first);
  if (first != bytes.size()) std::memcpy(bytes.data() + first, memory_.data, bytes.size() - first);
}

std::span<const std::byte> RingConsumer::CopyOut(RecordBuffer* buffer) {
  const std::span<const std::byte> record = Peek();
  if (record.empty()) return {};
  std::byte* copy = buffer->Take(record.size());
  std::memcpy(copy, record.data(), record.size());
  const auto size = static_cast<uint32_t>(record.size());
  std::memcpy(copy, &size, sizeof(size));
  Release();
  return {copy, size};
}

Status RingConsumer::Wait(uint64_t deadline_ns, const StopPredicate& stop) {
  return WaitWhileHead([this] { return tail_.load(std::memory_order_relaxed); }, deadline_ns, stop);
}

Status RingConsumer::WaitPast(uint64_t position, uint64_t deadline_ns, const StopPredicate& stop) {
  return WaitWhileHead([position] { return position; }, deadline_ns, stop);
}

Status RingConsumer::WaitForCall(uint64_t position, uint64_t deadline_ns, const StopPredicate& stop) {
  const auto ready = [&] { return memory_.header->head.load(std::memory_order_acquire) != position || broken(); };
  // The kernel looks at the word as well: a record that is published, and called for, before it slept ends the sleep at once.
  const auto sleep = [&](uint64_t timeout_ns) {
    FutexWait(FutexWord(memory_.header->head), static_cast<uint32_t>(position), timeout_ns);
  };
  RETURN_IF_ERROR(SleepUntil(ready, sleep, deadline_ns, stop));
  if (broken()) return RulesBroken("impossible head or record size");
  return Status::Ok();
}

// Waits while the head is where `at` says: the reader's role may move meanwhile, and with it that place.
template <typename Position>
Status RingConsumer::WaitWhileHead(const Position& at, uint64_t deadline_ns, const StopPredicate& stop) {
  const auto ready = [&] { return memory_.header->head.load(std::memory_order_acquire) != at() || broken(); };
  std::optional<uint64_t> armed_at;
  const auto sleep = [&](uint64_t timeout_ns) {
    // Once: as long as no record comes the producer has made no use of it; with what it commits after the second look it does.
    const bool armed = armed_at == memory_.header->head.load(std::memory_order_relaxed);
    if (!armed) Arm();
    const uint64_t head = memory_.header->head.load(std::memory_order_seq_cst);
    if (head != at() || broken()) return;
    if (!armed) timeout_ns = std::min(timeout_ns, kSecondLookNs);
    armed_at = head;
    FutexWait(FutexWord(memory_.header->head), static_cast<uint32_t>(head), timeout_ns);
  };
  RETURN_IF_ERROR(SpinThenSleep(spin_, ready, sleep, deadline_ns, stop));
  if (broken()) return RulesBroken("impossible head or record size");
  return Status::Ok();
}

Status RingConsumer::GoOn() {
  const uint64_t tail = memory_.header->tail.load(std::memory_order_seq_cst);
  tail_.store(tail, std::memory_order_relaxed);
  seen_head_ = tail;
  Published();
  if (broken() || tail % kRingRecordAlignment != 0) return RulesBroken("impossible head or tail");
  return Status::Ok();
}

void RingConsumer::WakeWaiters() { FutexWakeAll(FutexWord(memory_.header->head)); }

}  // namespace tessera
