// Reads the `replies` ring for all threads of the process, one at a time.
//
// A thread that waits takes the role of reader if it is free; the service thread takes it while nobody waits. In between the
// service thread sleeps in the kernel. A reader that leaves arms its wake-up, and one that enters disarms it. So neither a busy
// program nor its server pays a system call for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>

#include "client-stub/session/reply_slot.h"
#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/channel/ring.h"
#include "protocol/wire/record.h"

namespace tessera {

class ReplyReader {
 public:
  using NoticeHandler = std::function<void(const ReplyHeader& header, std::span<const std::byte> payload)>;

  // `stop` ends waits (Channel::stop()). `on_notice` gets every record that answers no request, by the reading thread.
  ReplyReader(RingConsumer& ring, StopPredicate stop, NoticeHandler on_notice)
      : ring_(ring), stop_(std::move(stop)), on_notice_(std::move(on_notice)) {}

  // Announces that `slot` (opened) waits for its sequence, before the record becomes visible. Callers hold a lock.
  void Register(ReplySlot* slot) EXCLUDES(overflow_mutex_);
  // After this has returned `slot` is not completed any more.
  void Unregister(ReplySlot* slot) EXCLUDES(reading_, overflow_mutex_);

  // Waits until `done()`, which becomes true through a reply or notice. With `slot` the thread sleeps on that slot
  // while another one reads. Ok, or how stop() or a broken ring ended the wait.
  template <typename Done>
  Status WaitUntil(const Done& done, ReplySlot* slot);
  // Handles what is in the ring now, if nobody else does.
  void Poll() EXCLUDES(reading_);
  // Records read so far. A thread that knows of a record (its reply, its host function) sees it counted. Any thread.
  uint64_t records_read() const { return records_read_.load(std::memory_order_acquire); }
  // For the service thread: handles what is there, then sleeps until something arrives that no other thread reads, or until
  // `timeout_ns` has passed. kProtocolViolation: the ring is broken.
  Status Serve(uint64_t timeout_ns) EXCLUDES(reading_);

 private:
  static constexpr size_t kSlots = 1024;  // requests in flight that need no lock to be found

  Status Drain() REQUIRES(reading_);
  Status ReadUntilRecord() REQUIRES(reading_);
  void Enter() REQUIRES(reading_);
  bool Leave() REQUIRES(reading_);
  ReplySlot* TakeSlot(uint64_t sequence) REQUIRES(reading_) EXCLUDES(overflow_mutex_);

  RingConsumer& ring_;
  const StopPredicate stop_;
  const NoticeHandler on_notice_;

  Mutex reading_;  // the role of reader
  std::atomic<uint64_t> records_read_{0};
  bool armed_ GUARDED_BY(reading_) = false;  // the next record wakes the service thread
  RecordBuffer buffer_ GUARDED_BY(reading_);
  AdaptiveSpin spin_;
  AdaptiveSpin long_spin_{AdaptiveSpin::LongNsMax()};
  AdaptiveSpin follower_spin_;
  // Threads that sleep until any notice was handled, while another thread reads.
  std::atomic<uint32_t> progress_{0};
  std::atomic<uint32_t> progress_sleepers_{0};

  std::atomic<ReplySlot*> slots_[kSlots] = {};
  Mutex overflow_mutex_;
  std::atomic<size_t> overflow_size_{0};
  std::unordered_map<uint64_t, ReplySlot*> overflow_ GUARDED_BY(overflow_mutex_);
};

template <typename Done>
Status ReplyReader::WaitUntil(const Done& done, ReplySlot* slot) {
  for (;;) {
    if (done()) return Status::Ok();
    if (reading_.try_lock()) {
      Enter();
      Status status = Drain();
      while (status.ok() && !done()) {
        status = ReadUntilRecord();
        if (status.ok()) status = Drain();
      }
      while (!Leave() && status.ok()) status = Drain();
      reading_.unlock();
      if (done()) return Status::Ok();
      if (!status.ok()) return status;
      continue;
    }
    if (follower_spin_.Spin(done)) return Status::Ok();
    if (stop_) {
      if (Status status = stop_(); !status.ok()) return done() ? Status::Ok() : status;
    }
    if (slot != nullptr) {
      slot->Sleep(kWaitSliceNs);
    } else {
      progress_sleepers_.fetch_add(1, std::memory_order_seq_cst);
      const uint32_t progress = progress_.load(std::memory_order_seq_cst);
      if (!done()) FutexWait(&progress_, progress, kWaitSliceNs);
      progress_sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

}  // namespace tessera
