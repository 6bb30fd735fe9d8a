// A ring of records in shared memory: one producing side, one consuming side, which do not trust each other.
//
//   if (!out.TryAppend(record)) { RETURN_IF_ERROR(out.WaitForSpace(record.size(), kNoDeadline, stop)); ... }
//   for (;;) {
//     std::span<const std::byte> record = in.CopyOut(&buffer);
//     if (record.empty()) { RETURN_IF_ERROR(in.Wait(kNoDeadline, stop)); continue; }
//     ...                                   // decode the private copy
//   }
//
// Records start at multiples of 8 and never split: a pad record fills the end of the ring. The first word of a record is
// its size in bytes (written by the ring itself), the second an id that the ring knows only as "pad or not". Positions are
// 64-bit numbers of bytes since the beginning; they never wrap.
//
// A thread that finds the ring empty (or full) spins for a bounded time, then sleeps in the kernel. Before it sleeps it counts up
// its number of sleeps in the header. The other side wakes it only when that number is new (futex(2)).
//
// Everything that the other side can write is copied once, checked against the ring's size, and only then used. Each side knows
// the size by itself. A violation is sticky: the ring then yields no record and accepts none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "protocol/base/status.h"
#include "protocol/channel/waiting.h"

namespace tessera {

inline constexpr uint32_t kRingPadId = 0xffffffff;
inline constexpr size_t kRingRecordAlignment = 8;
// Both kinds of record headers (protocol/wire/record.h) have this size: a record may be cast to its header.
inline constexpr size_t kRingRecordBytesMin = 32;
inline constexpr size_t kRingHeaderBytes = 4096;
// A ring's data has a power of two in this range as its size. The upper bound keeps the low 32 bits of all positions in flight
// distinct, on which the futex words rely.
inline constexpr uint32_t kRingBytesMin = 4u << 10;
inline constexpr uint32_t kRingBytesMax = 1u << 30;
// How soon a consumer that went to sleep looks at the ring once more (RingProducer::CommitLightly).
inline constexpr uint64_t kSecondLookNs = 100'000;

// The first page of a ring. Zero is the valid empty state. Each field has one writing side and its own pair of cache lines.
struct RingHeader {
  alignas(128) std::atomic<uint64_t> head;             // writer: producer. Bytes published; its low word is a futex
  alignas(128) std::atomic<uint32_t> producer_sleeps;  // writer: producer. Times it went to sleep for want of space
  alignas(128) std::atomic<uint64_t> tail;             // writer: consumer. Bytes released; its low word is a futex
  alignas(128) std::atomic<uint32_t> consumer_sleeps;  // writer: consumer. As above, times two; odd: wake it at the next record
  alignas(128) std::atomic<uint32_t> told_elsewhere;   // writer: producer. What it has said elsewhere so far
};
static_assert(sizeof(RingHeader) <= kRingHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// Where a ring lies in this process. The memory outlives the producer or consumer made from it.
struct RingMemory {
  RingHeader* header = nullptr;
  std::byte* data = nullptr;
  uint32_t size_bytes = 0;  // of data; agreed on, never read from shared memory

  // The ring whose header starts at `base`, data behind it. `size_bytes` must be a power of two within the bounds.
  static RingMemory At(std::byte* base, uint32_t size_bytes);
  // Bytes of header and data together.
  static constexpr size_t TotalBytes(uint32_t size_bytes) { return kRingHeaderBytes + size_bytes; }
  // Smallest legal size of at least `bytes`, at most kRingBytesMax.
  static uint32_t RoundSize(uint64_t bytes);
};

// The producing side. Try* and Commit: one thread at a time (callers keep a lock). WaitForSpace, WakeWaiters, position:
// any thread of the process, without that lock.
class RingProducer {
 public:
  explicit RingProducer(const RingMemory& memory);

  // A quarter of the ring.
  size_t record_bytes_max() const { return memory_.size_bytes / 4; }

  // Room for one record of `size` bytes (kRingRecordBytesMin to record_bytes_max(); rounded up to a multiple of 8, the
  // added bytes are zero), to be written in place and then published by Commit(). Null when there is no room now, when
  // the size is illegal or after a violation: WaitForSpace() tells which. A reservation that is not committed is dropped
  // by the next one.
  std::byte* TryReserve(size_t size) {
    const uint64_t rounded = RoundUp(size);
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t offset = head & (memory_.size_bytes - 1);
    const bool usual = size >= kRingRecordBytesMin && size <= record_bytes_max() && rounded <= memory_.size_bytes - offset &&
                       memory_.size_bytes - (head - seen_tail_) >= rounded && !broken();
    if (!usual) [[unlikely]]
      return ReserveSlowly(size);
    return Reserve(head, rounded, size);
  }
  // Publishes what was reserved: writes the record's size into its first word, and wakes a sleeping consumer.
  void Commit();
  // As Commit(), without the full barrier that makes the wake-up sure. That saves some tens of nanoseconds while the consumer has
  // the cache line of the head. A consumer that goes to sleep at this very moment may find the record only after kSecondLookNs,
  // when it looks again. For a ring whose consumer waits only in Wait() and WaitPast(), and whose producer must be fast.
  void CommitLightly();
  // TryReserve, copy, Commit. False: nothing was appended.
  bool TryAppend(std::span<const std::byte> record);

  // Waits until a record of `size` bytes fits (it may be gone again when another thread was faster). kTimedOut at
  // `deadline_ns` (MonotonicNs; kNoDeadline: none), kInvalidArgument for an illegal size, kProtocolViolation when the
  // consumer wrote nonsense, else what `stop` said (asked at least every kWaitSliceNs).
  Status WaitForSpace(size_t size, uint64_t deadline_ns, const StopPredicate& stop);
  // Makes the threads of this process in WaitForSpace ask their `stop` soon.
  void WakeWaiters();
  // Wakes a reader in WaitForCall(), with a system call each time. Any thread.
  void CallReader();
  // Tells the reader, by a new ToldElsewhere(), that something was said elsewhere before the later records. Any thread.
  void TellElsewhere() { memory_.header->told_elsewhere.fetch_add(1, std::memory_order_release); }

  // Bytes published by us so far: where the next record (or the pad before it) will begin.
  uint64_t position() const { return head_.load(std::memory_order_relaxed); }
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

  // For links, which carry a ring to another machine byte by byte, at equal positions on both ends. Not to be mixed with the
  // functions above. WriteAt() may write up to size_bytes beyond the tail. PublishTo() takes only positions that the original
  // producer had published, since these end with a whole record.
  void WriteAt(uint64_t position, std::span<const std::byte> bytes);
  void PublishTo(uint64_t position);
  // How far the consumer has released, checked. kProtocolViolation as above.
  Result<uint64_t> Released();
  // Waits until the consumer has released more than `position`; it wakes us at the latest when half of the ring is free.
  // Errors as WaitForSpace.
  Status WaitForRelease(uint64_t position, uint64_t deadline_ns, const StopPredicate& stop);
  uint32_t size_bytes() const { return memory_.size_bytes; }

  // Goes on where an earlier process of this side stopped for good, whatever it was doing. Call it before all other functions.
  // kProtocolViolation when the memory does not look like a ring.
  Status GoOn();

 private:
  // Our head and a tail that the consumer had reached by then.
  struct View {
    uint64_t head;
    uint64_t tail;
  };
  // Any thread. nullopt: after a violation; or another thread has appended meanwhile, so look again.
  std::optional<View> Look();
  // How many bytes from `head` on a record of `size` bytes takes, with the pad that may precede it.
  uint64_t Needed(uint64_t head, size_t size) const;
  bool Fits(const View& view, size_t size) const;
  static uint64_t RoundUp(size_t size) { return (size + kRingRecordAlignment - 1) & ~uint64_t{kRingRecordAlignment - 1}; }
  // `rounded` bytes from position `begin` on, which are free and in a row, for a record of `size`.
  std::byte* Reserve(uint64_t begin, uint64_t rounded, size_t size) {
    std::byte* const record = memory_.data + (begin & (memory_.size_bytes - 1));
    if (rounded != size) {
      constexpr uint64_t kZero = 0;
      std::memcpy(record + rounded - sizeof(kZero), &kZero, sizeof(kZero));
    }
    reserved_begin_ = begin;
    reserved_bytes_ = static_cast<uint32_t>(rounded);
    return record;
  }
  std::byte* ReserveSlowly(size_t size);
  // Ends the reservation; its end.
  uint64_t Finish();
  void Publish(uint64_t head);
  void WakeSleeper(uint32_t sleeps);

  const RingMemory memory_;
  std::atomic<uint64_t> head_{0};  // written by Commit alone
  // Only the appending thread writes it, never one that waits for space. A thread may overwrite bytes only once it has seen
  // (acquired) the consumer's release of them, and a tail that a waiting thread stores late would go backwards.
  uint64_t seen_tail_ = 0;
  std::atomic<bool> broken_{false};
  uint64_t reserved_begin_ = 0;
  uint32_t reserved_bytes_ = 0;  // 0: no reservation
  uint32_t woken_ = 0;           // value of consumer_sleeps for which we woke the consumer last
  AdaptiveSpin spin_;
};

// Private memory for one record; grows to the largest record seen.
class RecordBuffer {
 public:
  std::byte* Take(size_t size);

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
};

// The consuming side. Peek, CopyOut, Release, Published, Wait: one thread at a time; the role may move between threads
// under a lock. HasRecord, WakeWaiters, position: any thread.
class RingConsumer {
 public:
  explicit RingConsumer(const RingMemory& memory);

  // The oldest record, in shared memory: at least kRingRecordBytesMin bytes, a multiple of 8, contiguous. Empty when there
  // is none, or after a violation (broken()). The peer can still change these bytes: read each of them at most once, and
  // the size from the span, not from the record.
  std::span<const std::byte> Peek();
  // Gives the record that Peek() returned last back to the producer.
  void Release();
  // Peek() into private memory, then Release(). The first word of the copy is the checked size. Empty as above.
  std::span<const std::byte> CopyOut(RecordBuffer* buffer);

  // Ok when a record is there (or was published meanwhile); else as RingProducer::WaitForSpace. A record that was committed
  // lightly just as this went to sleep is found after kSecondLookNs at the latest.
  Status Wait(uint64_t deadline_ns, const StopPredicate& stop);
  // Makes a thread of this process in Wait() ask its `stop` soon.
  void WakeWaiters();

  // For a reader's role that moves between threads, one of which sleeps while others read (the client's service thread). Any
  // thread.
  //   head = HeadWord(); Arm(); if (!HasRecord()) SleepWhile(head, ns);
  // After Arm() the producer's next record wakes everybody who sleeps here, since every Arm() writes a number that the producer
  // has not seen. Disarm() takes that back; a wake-up may still come. Only the reader calls these two.
  uint32_t HeadWord() const { return static_cast<uint32_t>(memory_.header->head.load(std::memory_order_seq_cst)); }
  void Arm() {
    std::atomic<uint32_t>& sleeps = memory_.header->consumer_sleeps;
    sleeps.store((sleeps.load(std::memory_order_relaxed) + 2) | 1, std::memory_order_seq_cst);
  }
  void Disarm() {
    std::atomic<uint32_t>& sleeps = memory_.header->consumer_sleeps;
    sleeps.store(sleeps.load(std::memory_order_relaxed) & ~1u, std::memory_order_seq_cst);
  }
  void SleepWhile(uint32_t head_word, uint64_t timeout_ns) { FutexWait(&memory_.header->head, head_word, timeout_ns); }

  // Whether something was published that is not released. Cheap: no system call.
  bool HasRecord() const { return memory_.header->head.load(std::memory_order_acquire) != tail_.load(std::memory_order_relaxed); }
  // Another number than before: the producer has called TellElsewhere(). Any thread.
  uint32_t ToldElsewhere() const { return memory_.header->told_elsewhere.load(std::memory_order_acquire); }
  // Bytes released by us so far.
  uint64_t position() const { return tail_.load(std::memory_order_relaxed); }
  // Bytes published by the producer, checked: how far Peek() may go now. position() after a violation.
  uint64_t Published();
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

  // For links; see RingProducer. Bytes in [position(), Published()) may be read, any number of times, and are given back
  // to the producer by ReleaseTo().
  void ReadAt(uint64_t position, std::span<std::byte> bytes) const;
  void ReleaseTo(uint64_t position);
  // As Wait(), for a reader that keeps what it has read until later: waits until more than `position` is published.
  Status WaitPast(uint64_t position, uint64_t deadline_ns, const StopPredicate& stop);
  // As WaitPast(), for a reader whose work another thread usually does. It does not spin, and only CallReader() wakes it;
  // besides, it looks every kWaitSliceNs. Also returns for a record that was published without a call just before it slept.
  Status WaitForCall(uint64_t position, uint64_t deadline_ns, const StopPredicate& stop);
  // As RingProducer::GoOn().
  Status GoOn();

 private:
  std::span<const std::byte> Break();
  template <typename Position>
  Status WaitWhileHead(const Position& at, uint64_t deadline_ns, const StopPredicate& stop);

  const RingMemory memory_;
  std::atomic<uint64_t> tail_{0};  // written by Release alone
  std::atomic<bool> broken_{false};
  uint64_t seen_head_ = 0;
  uint32_t peeked_bytes_ = 0;
  uint32_t woken_ = 0;  // value of producer_sleeps for which we woke the producer last
  AdaptiveSpin spin_;
};

}  // namespace tessera
