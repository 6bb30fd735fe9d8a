// What the sessions of a vGPU have done on its GPU, in all: as their workers say in their report pages, which may hold any bytes.
// One thread.
#pragma once

#include <cstdint>

#include "server/gate/report_page.h"

namespace tessera {

// Sums of many sessions, which no number of a page can make overflow.
struct WorkCounts {
  double kernels = 0;     // calls that launched one
  double graphs = 0;      // launched
  double bytes_to = 0;    // copied from host memory
  double bytes_from = 0;  // and to it
};

// One row of one worker.
class WorkWatch {
 public:
  // What was done before is nobody's. `row` outlives it.
  explicit WorkWatch(const ReportPage::Row& row) : row_(row) {
    WorkCounts before;
    Look(&before);
  }
  // Adds what was done since the last look. A number that went back counts from there.
  void Look(WorkCounts* counts) {
    Add(row_.did_kernels, &kernels_, &counts->kernels);
    Add(row_.did_graphs, &graphs_, &counts->graphs);
    Add(row_.did_bytes_to, &bytes_to_, &counts->bytes_to);
    Add(row_.did_bytes_from, &bytes_from_, &counts->bytes_from);
  }

 private:
  static void Add(const std::atomic<uint64_t>& word, uint64_t* last, double* sum) {
    const uint64_t now = word.load(std::memory_order_relaxed);
    if (now > *last) *sum += static_cast<double>(now - *last);
    *last = now;
  }

  const ReportPage::Row& row_;
  uint64_t kernels_ = 0, graphs_ = 0, bytes_to_ = 0, bytes_from_ = 0;
};

}  // namespace tessera
