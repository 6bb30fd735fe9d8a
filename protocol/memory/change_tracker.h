// Memory that client and worker both have, each in pages of its own, and whose contents are brought together by telling the
// other side which bytes changed here: pinned host memory that kernels use over a mirrored channel. Both sides have one
// tracker with the same ranges.
//
// Each side keeps what both had when it last looked. SendChanges() tells every byte that differs from that, Apply() takes what
// the other side told; what was applied is no change of this side's, so nothing travels back. Bytes are told one by one:
// neighbours of a changed byte may be written by the other side at the same time. Of a byte that both sides change at once
// (a race wherever memory is shared) each may keep the other's value.
//
// Changes travel as blocks: u64 address (of the first of 64 bytes, a multiple of 64, plus the range's generation), u64 mask (bit
// i: byte i has changed), the changed bytes in order, zeros up to a multiple of 8. A message is any number of whole blocks. A
// generation is a number below 64 that both sides give a range: what was told of one that is gone does not count for the next
// one at its address.
//
// Any thread. Messages are sent in the order in which the memory was looked at, with a lock held that Apply() never takes:
// who applies waits for nobody who waits for room to send.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

class ChangeTracker {
 public:
  // The largest block.
  static constexpr size_t kBlockBytesMax = 2 * sizeof(uint64_t) + 64;

  ChangeTracker();
  ~ChangeTracker();
  ChangeTracker(const ChangeTracker&) = delete;
  ChangeTracker& operator=(const ChangeTracker&) = delete;

  // Tracks `range`, whose addresses both sides mean by it and whose bytes are at `memory` here. Until now both sides had
  // zeros in it: what is not 0 counts as changed here. No two ranges have bytes of one block. False when a tracked range
  // overlaps it, or there is no memory for another copy of it. Of `generation` the last six bits count.
  bool Add(const Range& range, std::byte* memory, uint32_t generation) EXCLUDES(mutex_);
  // Forgets the range that starts at `base`. When this returns its memory is not touched any more, and all that is ever told
  // of it has been sent. Waits while changes are being sent.
  void Remove(uint64_t base) EXCLUDES(mutex_, send_mutex_);
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }

  // Passes on what changed here since, in messages of at most `bytes_max` (kBlockBytesMax or more). `send` may wait; when it
  // returns false the rest is lost and so is the result: the channel has ended.
  using Send = std::function<bool(std::span<const std::byte> changes)>;
  bool SendChanges(size_t bytes_max, const Send& send) EXCLUDES(mutex_, send_mutex_);
  // The same for the range that starts at `base` alone: for one that was just added, whose first content would otherwise keep
  // a lone change waiting. Nothing to do for an unknown one.
  bool SendChangesOf(uint64_t base, size_t bytes_max, const Send& send) EXCLUDES(mutex_, send_mutex_);

  // Passes on what changed here since if it lies in one aligned word of eight bytes: for whoever watches such a word on the
  // other side while this side goes on, a kernel that waits for a flag. Nothing else may have changed before the word did,
  // which is seen by looking twice: what is told in this way never precedes what was written before it. More than a word stays
  // for SendChanges(): in which order it was written cannot be known. False as for SendChanges().
  bool SendLoneChange(const Send& send) EXCLUDES(mutex_, send_mutex_);

  // Takes a message of the other side. Bytes of one aligned word of eight bytes change together, as far as they were changed
  // together. Bytes outside of all tracked ranges are ignored, and those of another
  // generation: the range may be gone here already.
  // False when the message is malformed; what came before the mistake was taken.
  bool Apply(std::span<const std::byte> changes) EXCLUDES(mutex_);

 private:
  struct Tracked;
  bool SendChangesOf(std::span<const std::shared_ptr<Tracked>> ranges, size_t bytes_max, const Send& send) REQUIRES(send_mutex_);
  std::shared_ptr<Tracked> Find(uint64_t address) EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Tracked>> All() EXCLUDES(mutex_);

  std::atomic<size_t> count_{0};
  Mutex send_mutex_;  // taken before mutex_
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Tracked>> tracked_ GUARDED_BY(mutex_);  // by base
};

}  // namespace tessera
