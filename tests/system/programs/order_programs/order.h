// Which operations of a program are known to be over before which others begin, by CUDA's documented rules alone.
//
// Rules (CUDA programming guide, "Implicit Synchronization", "Default Stream"; driver API, "API synchronization behavior" and
// "Stream synchronization behavior"):
// - Work of one stream runs in the order of its calls.
// - Work of the legacy stream waits for what blocking streams (per-thread ones are) were given before it, and theirs for its.
//   Synchronous copies and sets are work of the legacy stream.
// - A wait for an event has later work of its stream wait for the work before its last record. In the legacy stream, too, it is
//   nothing that other streams wait for, nor does it wait for them.
// - Waits of the program are behind what they waited for.
// - A synchronous copy is over when it returns where one side is host memory; one from pageable memory has read it by then and no
//   more is known. Likewise asynchronous ones to or from pageable memory, but that they wait for nothing.
// - A copy between host memories is over when it returns. In which stream it waits is not documented: none is counted on.
// - Copies to or from managed memory are work of their stream, and nothing else is known of when they are over: what is known of
//   device and of pinned memory need not be true of it.
// - The program touches managed memory only when all work that used any byte of the block is over, and no work uses it before the
//   touch is. (A device without concurrent managed access asks natively for more: that it has no work at all.)
// - A prefetch only reads. What it waits for beside its own stream, and who waits for it, is not counted on.
// - A stream that waits for a flag goes on behind the work before the first write that raised it so far. That write stands before
//   the wait, and the writes to one flag are ordered. As with events, other streams do not wait for such a wait.
// - The second process works while no work of the first one is pending.
// - A synchronous set of pinned memory is over when it returns; of device memory it need not be.
// Where the documents leave something open, the weaker is taken. So an operation that is accepted here has one possible outcome.
#pragma once

#include <bitset>
#include <vector>

#include "program.h"

namespace order_programs {

class Order {
 public:
  // `native`: also of what driver 580 does beside its documents. An asynchronous copy of at most kReadEarlyBytes from pinned or
  // registered memory to the device is read at the call where the stream itself has no work, although it has to wait for other
  // streams by the rules of the legacy stream (measured on an H100). So a driver alone needs programs in which no such order is
  // counted on; forwarded, they are run in the documented order.
  explicit Order(bool native) : native_(native) {}

  // Takes the operation as the next of its thread if all that it touches is ordered behind what earlier ones did there.
  // False, and nothing has changed, if not, and for what no program may do (a join without a fork).
  bool Add(const Operation& operation);
  bool forked() const { return forked_; }
  bool recorded(int event) const { return records_[event].any(); }
  // What the flag is raised to.
  uint32_t raised(int flag) const { return raises_[flag].empty() ? 0 : raises_[flag].back().value; }

 private:
  static constexpr size_t kMost = 512;
  static constexpr size_t kReadEarlyBytes = 24'576;
  using Set = std::bitset<kMost>;
  struct Access {
    size_t id;
    int buffer;
    size_t begin, end;
    bool write;
  };
  struct Work {
    size_t id;
    int stream, thread;
    bool wait;  // for an event: no work of its own, which other streams would wait for
    Set before;
  };
  struct Raise {
    uint32_t value;
    Set over;  // where the flag has the value: the write and what was before it
  };
  struct Thread {
    Set over;   // known to it as over
    Set given;  // works that it knows to be in their streams
  };

  bool AddCopy(const Operation& operation);
  bool AddGraph(const Operation& operation);
  bool AddHostAccess(const Operation& operation);
  bool AddRecord(const Operation& operation);
  bool AddFlag(const Operation& operation);
  bool AddPrefetch(const Operation& operation);
  static Access AccessOf(const Operation& operation, const Region& region, bool write, size_t id);
  // `alone`: by the stream's own work.
  Set Before(const Thread& thread, int number, int stream, bool alone = false) const;
  bool MayTouch(const Operation& operation, const Region& region, bool write, const Set& before) const;
  void Touch(const Operation& operation, const Region& region, bool write, size_t id);
  // What the work itself needs is in `before`.
  void Give(int number, int stream, size_t id, const Set& before, bool wait = false);
  bool AddInStream(const Operation& operation, int stream, bool over_at_return);
  void AwaitStream(int number, int stream);
  void AwaitAll(int number);

  bool native_;
  size_t next_ = 0;
  bool forked_ = false, joined_ = false;
  Thread threads_[2];
  Set records_[kEventCount];
  std::vector<Raise> raises_[kFlagCount];
  std::vector<Access> accesses_;
  std::vector<Work> works_;
};

// Whether all operations can be added.
bool IsOrdered(const Program& program, bool native);

}  // namespace order_programs
