// The gate of one worker: a page that the broker writes, and in one word the daemon, and the worker reads.
//
// The worker looks at it before it lets work into the driver (server/worker/gate/gate.h). A page that nobody has written is all
// zeros: free. One row for each GPU of the server, in the order of the server's snapshot. Times are CLOCK_MONOTONIC in
// nanoseconds, which is one clock for all processes of a machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr size_t kGateRowsMax = 16;
// After that long without a word from the broker a worker goes by its static slots.
inline constexpr uint64_t kBrokerSilentNs = 500'000'000;
// How often the broker says that it is there.
inline constexpr uint64_t kBrokerAliveNs = 100'000'000;

enum class GateMode : uint8_t {
  kFree = 0,     // nothing waits, nothing is counted
  kArmed = 1,    // nothing waits for a token, but only so much may be queued in the driver
  kMetered = 2,  // work waits for its token
  kEnded = 3,    // the session ends: it ran on beyond its tokens while others waited
};

// A row's gate, which is one atomic word, so that mode and time always fit together.
struct GateWord {
  GateMode mode = GateMode::kFree;
  bool next = false;           // a token is about to come: worth to spin for
  uint64_t open_until_ns = 0;  // kMetered: work may start before that. A multiple of 16, rounded down

  uint64_t Pack() const { return (open_until_ns & ~uint64_t{15}) | (next ? 8 : 0) | static_cast<uint64_t>(mode); }
  // Any word is one: a mode that there is not is kMetered, the most careful one.
  static GateWord Of(uint64_t word) {
    const uint64_t mode = word & 7;
    return {mode > 3 ? GateMode::kMetered : static_cast<GateMode>(mode), (word & 8) != 0, word & ~uint64_t{15}};
  }
};

struct GatePage {
  struct Row {
    std::atomic<uint64_t> gate;           // GateWord
    std::atomic<uint64_t> slot_begin_ns;  // scheduler/static_slots.h; a slot without length is none
    std::atomic<uint64_t> slot_length_ns;
    std::atomic<uint64_t> memory_limit;  // bytes that the vGPU may hold, all its sessions together; 0: no limit. The daemon
                                         // writes it before the session begins, and then the broker
    std::atomic<uint64_t>
        memory_budget;  // what of it is this session's: no more may be held (server/worker/memory/memory_ledger.h)
    std::atomic<uint64_t> memory_answer;  // the last ReportPage::Row::memory_asks that the broker has answered
    std::atomic<uint64_t> memory_others;  // what the vGPU's other sessions held when the broker last looked
    uint8_t uuid[16];                     // of the GPU; written by the daemon before there is a reader
  };

  std::atomic<uint32_t> changes;      // counts up with every change of a row; the word of a futex
  std::atomic<uint32_t> closed_rows;  // bit i: row i is not free. All that a worker looks at while every row is
  std::atomic<uint64_t> alive_ns;     // when the broker last said that it is there
  uint32_t row_count;                 // as `uuid`
  std::atomic<uint32_t> caught;  // why the session ends, beside what its rows say: GateEnd (server/gate/gate_end.h); the daemon's
  Row rows[kGateRowsMax];
  // By row: what the session's first context there takes of the limit; 0: it has its room already. The daemon writes it before
  // the session begins. The broker makes it 0, and nothing else.
  std::atomic<uint64_t> context_bytes[kGateRowsMax];
  // By row: what each further context of the session takes of the limit, as long as it lives; 0: nobody has measured it. As
  // `uuid`.
  std::atomic<uint64_t> further_context_bytes[kGateRowsMax];
};
static_assert(sizeof(GatePage) <= 4096);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace tessera
