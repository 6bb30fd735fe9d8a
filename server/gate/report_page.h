// What one worker does with its GPUs: a page that the worker writes and the broker reads, beside an eventfd that wakes the
// broker.
//
// The broker trusts nothing here: it copies a word once, and looks whether it can be. Rows and times as in gate_page.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protocol/wire/memory_kind.h"
#include "server/gate/gate_page.h"

namespace tessera {

struct ReportPage {
  static constexpr size_t kSpans = 64;

  // From the first work of an idle worker until its GPU had done all of it.
  struct Span {
    std::atomic<uint64_t> begin_ns;
    std::atomic<uint64_t> end_ns;
  };
  // Written in armed and metered mode alone, but for what begins with `memory_` or `did_`, and the last two words.
  struct Row {
    std::atomic<uint64_t> wants_since_ns;  // a record waits at the gate since then; 0: none does
    std::atomic<uint64_t> busy_since_ns;   // the span that has not ended; 0: idle
    std::atomic<uint64_t> queued_ns;       // how long what is queued was believed to take, at queued_at_ns
    std::atomic<uint64_t> queued_at_ns;
    std::atomic<uint64_t> span_count;  // spans that have ended, in all; the last kSpans of them are in `spans`
    std::atomic<uint64_t> launches;    // records that passed the gate, in all
    std::atomic<uint64_t> longest_wait_ns;
    std::atomic<uint64_t> waited_ns;    // at the gate, in all
    std::atomic<uint64_t> engaged_ns;   // when the worker saw that a gate of its GPUs had closed; 0: all are free
    std::atomic<uint64_t> drained_ns;   // when it first saw after that that the driver had done everything; 0: not yet. As
                                        // engaged_ns: nothing was queued then
    std::atomic<uint64_t> memory_held;  // bytes of the GPU's memory
    std::atomic<uint64_t> memory_by_kind[kMemoryKinds];  // the same, by MemoryKind: shown, and nothing is decided by it
    std::atomic<uint64_t> memory_asks;                   // how often the session has asked for a larger part of its vGPU's memory
    std::atomic<uint64_t> memory_wanted;                 // bytes beyond its budget that it asked for last
    // What the session did there, in all, in every mode.
    std::atomic<uint64_t> did_kernels;     // calls that launched one
    std::atomic<uint64_t> did_graphs;      // launched
    std::atomic<uint64_t> did_bytes_to;    // copied from host memory
    std::atomic<uint64_t> did_bytes_from;  // and to it
    // What its driver has of the GPU's memory beside memory_held, in all, in every mode: for the audit
    // (server/daemon/readings/memory_audit.h).
    std::atomic<uint64_t> made_contexts;
    std::atomic<uint64_t> loaded_bytes;  // code of modules and libraries, where the vGPU has a limit of memory
    Span spans[kSpans];                  // the n-th, counted from 0, is spans[n % kSpans]
  };

  std::atomic<uint32_t> visible_rows;  // bit i: the session may use GPU i; 0: it has not begun
  uint32_t padding;
  std::atomic<uint64_t> executed;  // records of the session, whatever they were
  Row rows[kGateRowsMax];
};

inline constexpr uint64_t kReportFileBytes = (sizeof(ReportPage) + 4095) / 4096 * 4096;

}  // namespace tessera
