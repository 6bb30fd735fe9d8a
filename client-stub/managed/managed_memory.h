// Managed memory of one session: the same address on the device and in this process, with bytes that move between the two.
//
// A block is ordinary device memory in the session's device window, which this process keeps free (address_windows.h), plus real
// pages at the same addresses here. Kernels use it at full speed, and pointers in it mean the same on both sides. It never leaves
// the device, so there is no more of it than the device has memory. The device attribute "concurrent managed access" is 0: a
// program touches managed memory only while no work runs that may use it. So pages are moved as follows:
//   before work may use a block   pages the program may have written are copied to the device; none may be touched
//   a touch after that            waits for the work that may use the block, fetches some pages (page_states.h)
// Copies and sets are work that uses the range they name. A program that touches a block while a kernel runs waits for the
// kernel; natively it would crash. The attribute forbids that both write to one page; if they do, the program's bytes stay.
//
// Only the work of one stream uses memory attached to that stream (cuStreamAttachMemAsync). Memory attached to the host is
// treated like global memory, so a kernel that uses it nevertheless sees the right bytes.
//
// Small blocks share spans (small_blocks.h): to a span belongs what is said of a block here. So the work of all streams uses it
// to which one of its blocks is attached, or of all streams.
//
// The public functions are for any thread. Their work on pages runs on the service threads (service_thread.h) under one lock. The
// lock is not held during waits for the application's work.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "client-stub/managed/advice.h"
#include "client-stub/managed/page_states.h"
#include "client-stub/managed/page_transfers.h"
#include "client-stub/managed/pending_work.h"
#include "client-stub/managed/shared_pages.h"
#include "client-stub/managed/small_blocks.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/session.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

// What a piece of work may do with managed memory.
struct ManagedUse {
  WorkedStream stream;
  Range range;  // no bytes: any
  bool reads_only = false;
};

class ManagedMemory {
 public:
  // `window`: where device memory of the session lies.
  ManagedMemory(Session& session, const Range& window) : session_(session), window_(window), transfers_(session) {}
  static ManagedMemory& Of(Session& session) { return session.managed(); }

  // Whether there is managed memory, and whether this process may touch any of its pages. The paths of launches and copies ask
  // this.
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  bool accessible() const { return accessible_.load(std::memory_order_acquire) != 0; }

  // Adds a block: [range.base, range.end()) is device memory of `context`, in whole pages, for this alone. It is cleared here.
  // `freed_by`: the address by which the server knows the memory.
  CUresult Add(const Range& range, uint64_t freed_by, HandleId context);
  // Adds a variable that the server's driver placed, of a library or of a module in `context`. Adding the same one again is no
  // failure. CUDA_ERROR_OUT_OF_MEMORY: something of this process lies there.
  CUresult AddVariable(const Range& range, HandleId container, HandleId context);
  // Takes a small block in a span of the context; it is cleared. CUDA_SUCCESS and no range: no span has room, add one.
  CUresult TakeSmall(uint64_t bytes, HandleId context, std::optional<Range>* taken);
  // Adds a span, device memory as of Add() of SmallBlocks::kSpanBytes, and takes the first block in it.
  CUresult AddSpan(const Range& span, uint64_t freed_by, HandleId context, uint64_t bytes, std::optional<Range>* taken);

  // What a block leaves when it is removed.
  struct Removed {
    uint64_t freed_by = 0;  // not 0: the server is to free this, as given to Add() or AddSpan()
    uint64_t number = 0;    // else: what EndFrees() wants, once all work is done that was enqueued before
  };
  // Removes the block that starts at `base`. False: there is none.
  bool Remove(uint64_t base, Removed* removed);
  // No work uses the small blocks any more that were removed up to this number: others may have their pages. Returns the spans
  // without blocks, which the server is to free.
  std::vector<uint64_t> EndFrees(uint64_t number);
  void RemoveVariables(HandleId container);
  void EndContext(HandleId context);

  // Call it before a stream gets work: see above. Not CUDA_SUCCESS: the device lacks what the program wrote, so the work must not
  // be done.
  CUresult Prepare(const ManagedUse& use) EXCLUDES(mutex_);
  // Call it after the stream got the work: touches wait for it from now on. Pages that other threads have fetched since Prepare()
  // become inaccessible again.
  void Note(const ManagedUse& use) EXCLUDES(mutex_);
  // Call it before a capture begins: waits for all work for which touches would wait. During the capture nobody can wait for
  // default streams and captured ones.
  void BeforeCapture() EXCLUDES(mutex_);
  // A host function ends. Work that was prepared before it ran may wait behind it.
  CUresult AfterHostFunction();

  // From now on only the work of `stream` uses the block; a null handle: all work. Waits for nothing. Touches still wait for
  // earlier work of any stream that may use the block.
  CUresult Attach(uint64_t address, HandleId stream);
  // Announces that the next touches of the range are a pass over it.
  void ExpectPass(const Range& range);
  // Changes the advice. False: not all of the range is managed memory.
  bool UpdateAdvice(const Range& range, const std::function<void(Advice&)>& change);
  bool ForEachAdvice(const Range& range, const std::function<void(const Advice&)>& visit);
  // Whether all of the range is managed memory.
  bool Covers(const Range& range);

 private:
  struct Block {
    Range range;  // whole pages
    uint64_t freed_by = 0;
    HandleId context;                // null: a variable of a library, of all contexts
    HandleId container;              // of variables
    HandleId attached;               // null: to all streams
    std::set<WorkedStream> earlier;  // to which it was attached before, whose work may still use it
    std::vector<Range> extents;      // what exists on the device; all of `range` but for variables
    SharedPages* pages = nullptr;
    PageStates states;
    AdviceMap advice;
    // Of a span; else null and empty.
    std::unique_ptr<SmallBlocks> small;
    std::map<uint64_t, HandleId> small_attached;  // its blocks that are attached to streams, by base
    std::set<uint64_t> small_freeing;             // those that were removed, whose pages wait for EndFrees()
    bool small_advised = false;                   // there is advice, which blocks to come do not have
    Block(const Range& r, SharedPages* p, PageState initial)
        : range(r), pages(p), states(r.bytes / kManagedPageBytes, initial), advice(r.base) {}
    Range RangeOf(const PageRun& run) const {
      return Range{range.base + run.first * kManagedPageBytes, run.count * kManagedPageBytes};
    }
  };
  using Blocks = std::map<uint64_t, Block>;  // by base

  // By the largest block for which there is room.
  using SpansWithRoom = std::set<std::pair<uint64_t, uint64_t>>;

  CUresult MapWindow();
  CUresult AddHere(const Range& range, uint64_t freed_by, HandleId context, Block** added);
  CUresult TakeSmallHere(Block& span, uint64_t bytes, std::optional<Range>* taken);
  void FreeSmallHere(Block& span, uint64_t base);
  static bool CoversSmall(const Block& span, const Range& range);
  CUresult AddVariableHere(const Range& range, HandleId container, HandleId context);
  // Part of a variable in pages that others have part in; pages that none had.
  CUresult AddExtent(Block& block, const Range& extent);
  CUresult AddVariablePages(const Range& wanted, const Range& extent, HandleId container, HandleId context);
  CUresult PrepareHere(const ManagedUse& use);
  void SettleHere(const ManagedUse& use);
  bool Resolve(uint64_t address, bool write, bool in_host_function) EXCLUDES(mutex_);
  CUresult FetchAfterWork(uint64_t address, bool write) EXCLUDES(mutex_);
  // Warns once in this process when a touch has waited long: the work that it waits for may be waiting for it. On the session's
  // service thread.
  void WarnOfLongTouch();
  // `waited`: the work that may use the block is done, not only that of the host function's stream.
  CUresult Fetch(Block& block, uint64_t address, bool write, bool waited);
  PageRun FetchedWith(Block& block, uint64_t page, PageState state, bool reads_all);
  CUresult FetchAll(Block& block);
  // Gives all pages to the device, for want of room for more boundaries between protections: a span then has none.
  CUresult GiveAway();
  void Settle(Block& block, const PageRun& part);
  // Waits for the work that may use the block that contains `address`. CUDA_ERROR_INVALID_VALUE: there is none.
  CUresult WaitForWorkOn(uint64_t address) EXCLUDES(mutex_);
  CUresult WaitForEach(const std::vector<WorkedStream>& streams) EXCLUDES(mutex_);
  CUresult Push(const Block& block, const PageRun& run);
  CUresult Pull(const Block& block, const PageRun& run);
  // Changes the states of pages and keeps `accessible_`. The second also changes the protection; false, and nothing changed: the
  // system refuses.
  void SetStates(Block& block, const PageRun& run, PageState state);
  bool Change(Block& block, const PageRun& run, PageState state);
  void Drop(Blocks::iterator block);
  Block* Find(uint64_t address);
  bool Uses(const Block& block, const WorkedStream& stream) const;
  // The pages of the block that the work may use.
  PageRun PagesOf(const Block& block, const Range& range) const;
  template <typename Visit>
  bool ForEachBlockIn(const Range& range, Visit visit);

  Session& session_;
  const Range window_;
  std::atomic<size_t> count_{0};
  std::atomic<size_t> accessible_{0};
  std::atomic<bool> fetching_{false};       // pages are about to become accessible
  std::atomic<uint64_t> touched_at_ns_{0};  // a touch waits for work of the device since then; 0: none
  PendingWork pending_;

  Mutex mutex_;  // guards all below, except PageTransfers::Wait()
  PageTransfers transfers_;
  std::unique_ptr<SharedPages> window_pages_;
  std::map<uint64_t, std::unique_ptr<SharedPages>> variable_pages_;
  Blocks blocks_;
  std::map<HandleId, SpansWithRoom> spans_;   // by context
  std::map<uint64_t, uint64_t> small_frees_;  // number, base: in the order of their removal
  uint64_t last_free_ = 0;
};

// As AdoptDriverRange (client_memory.h) for a managed variable, of a library (no context) or of a module, which this process
// touches as well.
bool AdoptManagedVariable(BasicCall& call, const Range& range, HandleId container, HandleId context);

}  // namespace tessera
