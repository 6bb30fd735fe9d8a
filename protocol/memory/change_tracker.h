// Tracks memory that client and worker both have, each in pages of its own: pinned host memory that kernels use over a mirrored
// channel. Each side tells the other which of its bytes changed, so the contents become equal. Both sides have one tracker with
// the same ranges.
//
// Each side keeps a copy of what both had when it last looked. SendChanges() tells every byte that differs from the copy. Apply()
// takes what the other side told; that is no change of this side's, so nothing travels back. Bytes are told one by one, since the
// other side may be writing the neighbours of a changed byte. When both sides change a byte at once (a race wherever memory is
// shared) each may keep the other's value.
//
// Changes travel as blocks: u64 address (of the first of 64 bytes, a multiple of 64, plus the range's generation), u64 mask (bit
// i: byte i has changed), the changed bytes in order, zeros up to a multiple of 8. A message is any number of whole blocks. A
// generation is a number below 64 that both sides give a range. It keeps changes of a range that is gone from counting for the
// next range at the same address.
//
// Any thread. Messages are sent in the order in which the memory was looked at, under a lock that Apply() never takes. So whoever
// applies never waits for a thread that waits for room to send.
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
  // The size of the largest block.
  static constexpr size_t kBlockBytesMax = 2 * sizeof(uint64_t) + 64;

  ChangeTracker();
  ~ChangeTracker();
  ChangeTracker(const ChangeTracker&) = delete;
  ChangeTracker& operator=(const ChangeTracker&) = delete;

  // Tracks `range`. Both sides mean the same by its addresses; its bytes are at `memory` here. Until now both sides had zeros in
  // it, so what is not 0 counts as changed here. No two ranges share a block. Only the last six bits of `generation` count. False
  // when a tracked range overlaps `range`, or memory for the second copy cannot be had.
  bool Add(const Range& range, std::byte* memory, uint32_t generation) EXCLUDES(mutex_);
  // Forgets the range that starts at `base`. When this returns, its memory is not touched any more, and all that will ever be
  // told of it has been sent. Waits while changes are being sent.
  void Remove(uint64_t base) EXCLUDES(mutex_, send_mutex_);
  // Forgets all ranges. When this returns their memory is not touched any more. Waits for nothing that is being sent.
  void RemoveAll() EXCLUDES(mutex_);
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }

  // Passes on what changed here since the last look, in messages of at most `bytes_max` (kBlockBytesMax or more). `send` may
  // wait. When it returns false, the channel has ended: the rest is lost, and the result is false.
  using Send = std::function<bool(std::span<const std::byte> changes)>;
  bool SendChanges(size_t bytes_max, const Send& send) EXCLUDES(mutex_, send_mutex_);
  // The same for one range only, which starts at `base`. Use it for a range that was just added: its first content would
  // otherwise keep a lone change waiting. An unknown range is no error.
  bool SendChangesOf(uint64_t base, size_t bytes_max, const Send& send) EXCLUDES(mutex_, send_mutex_);

  // Passes on what changed here if all of it lies in one aligned word of eight bytes. This is for a kernel on the other side that
  // waits for a flag while this side goes on. Two looks make sure that nothing else changed before the word did. So what is told
  // in this way never precedes what was written before it. More than a word stays for SendChanges(), since the order in which it
  // was written cannot be known. False as for SendChanges().
  bool SendLoneChange(const Send& send) EXCLUDES(mutex_, send_mutex_);

  // Takes a message of the other side. Bytes of one aligned word of eight bytes that changed together appear here together.
  // Ignores bytes outside of all tracked ranges, and bytes of another generation: the range may be gone here already. False when
  // the message is malformed; what came before the mistake was taken.
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
