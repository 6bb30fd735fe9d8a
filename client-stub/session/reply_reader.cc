#include "client-stub/session/reply_reader.h"

#include <sched.h>

#include <cstring>

#include "client-stub/session/session_flags.h"

namespace tessera {

void ReplyReader::Register(ReplySlot* slot) {
  ReplySlot* none = nullptr;
  if (slots_[slot->sequence() % kSlots].compare_exchange_strong(none, slot, std::memory_order_release)) return;
  MutexLock lock(overflow_mutex_);
  overflow_.emplace(slot->sequence(), slot);
  overflow_size_.store(overflow_.size(), std::memory_order_release);
}

void ReplyReader::Unregister(ReplySlot* slot) {
  MutexLock reading(reading_);
  ReplySlot* expected = slot;
  if (slots_[slot->sequence() % kSlots].compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel)) return;
  MutexLock lock(overflow_mutex_);
  overflow_.erase(slot->sequence());
  overflow_size_.store(overflow_.size(), std::memory_order_release);
}

ReplySlot* ReplyReader::TakeSlot(uint64_t sequence) {
  std::atomic<ReplySlot*>& place = slots_[sequence % kSlots];
  ReplySlot* slot = place.load(std::memory_order_acquire);
  if (slot != nullptr && slot->sequence() == sequence) {
    place.store(nullptr, std::memory_order_release);
    return slot;
  }
  if (overflow_size_.load(std::memory_order_acquire) == 0) return nullptr;
  MutexLock lock(overflow_mutex_);
  const auto found = overflow_.find(sequence);
  if (found == overflow_.end()) return nullptr;
  slot = found->second;
  overflow_.erase(found);
  overflow_size_.store(overflow_.size(), std::memory_order_release);
  return slot;
}

void ReplyReader::Enter() {
  if (!armed_) return;
  armed_ = false;
  ring_.Disarm();
}

// False: records arrived meanwhile, and the caller is still the reader.
bool ReplyReader::Leave() {
  ring_.Arm();
  armed_ = true;
  if (!ring_.HasRecord() || ring_.broken()) return true;
  Enter();
  return false;
}

Status ReplyReader::Drain() {
  for (;;) {
    const std::span<const std::byte> record = ring_.Peek();
    if (record.empty()) break;
    ReplyHeader header;
    std::memcpy(&header, record.data(), sizeof(header));
    records_read_.store(records_read_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (header.kind == static_cast<uint32_t>(ReplyKind::kReply)) {
      // Copied once, from shared memory to where the waiting thread decodes it.
      if (ReplySlot* slot = TakeSlot(header.sequence)) slot->Complete(header.result, record.subspan(sizeof(header)));
      ring_.Release();
      continue;
    }
    const std::span<const std::byte> copy = ring_.CopyOut(&buffer_);
    std::memcpy(&header, copy.data(), sizeof(header));
    on_notice_(header, copy.subspan(sizeof(header)));
    progress_.fetch_add(1, std::memory_order_seq_cst);
    if (progress_sleepers_.load(std::memory_order_seq_cst) != 0) FutexWakeAll(&progress_);
  }
  if (!ring_.broken()) return Status::Ok();
  return Status(StatusCode::kProtocolViolation, "the server broke the rules of the ring of replies");
}

// Waits, as the reader, for the next record.
Status ReplyReader::ReadUntilRecord() {
  const auto ready = [this] { return ring_.HasRecord() || ring_.broken(); };
  const auto sleep = [&](uint64_t timeout_ns) {
    const uint32_t head = ring_.HeadWord();
    ring_.Arm();
    if (!ready()) ring_.SleepWhile(head, timeout_ns);
  };
  AdaptiveSpin& spin = SessionFlags::Process().may_spin_long.load(std::memory_order_relaxed) ? long_spin_ : spin_;
  return SpinThenSleep(spin, ready, sleep, kNoDeadline, stop_);
}

void ReplyReader::Poll() {
  if (!ring_.HasRecord() || !reading_.try_lock()) return;
  Enter();
  Status status = Drain();
  while (!Leave() && status.ok()) status = Drain();
  reading_.unlock();
}

Status ReplyReader::Serve(uint64_t timeout_ns) {
  // Read before the role is tried for: whatever is published later changes the word, and the sleep ends at once.
  const uint32_t head = ring_.HeadWord();
  if (reading_.try_lock()) {
    Enter();
    Status status = Drain();
    while (!Leave() && status.ok()) status = Drain();
    reading_.unlock();
    RETURN_IF_ERROR(status);
  } else if (ring_.HasRecord()) {
    sched_yield();  // the reader is busy with it, or has just left without seeing it
    return Status::Ok();
  }
  if (!ring_.HasRecord()) ring_.SleepWhile(head, timeout_ns);
  return Status::Ok();
}

}  // namespace tessera
