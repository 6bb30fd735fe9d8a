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
  struct Thread {
    Set over;   // known to it as over
    Set given;  // works that it knows to be in their streams
  };

  bool AddCopy(const Operation& operation);
  bool AddGraph(const Operation& operation);
  // `alone`: by the stream's own work.
  Set Before(const Thread& thread, int number, int stream, bool alone = false) const;
  bool MayTouch(const Operation& operation, const Region& region, bool write, const Set& before) const;
  void Touch(const Operation& operation, const Region& region, bool write, size_t id);
  // What the work itself needs is in `before`.
  void Give(int number, int stream, size_t id, const Set& before, bool wait = false);
  bool AddInStream(const Operation& operation, int stream, bool over_at_return);
  void AwaitStream(int number, int stream);

  bool native_;
  size_t next_ = 0;
  bool forked_ = false, joined_ = false;
  Thread threads_[2];
  Set records_[kEventCount];
  std::vector<Access> accesses_;
  std::vector<Work> works_;
};

// Whether all operations can be added.
bool IsOrdered(const Program& program, bool native);

}  // namespace order_programs
