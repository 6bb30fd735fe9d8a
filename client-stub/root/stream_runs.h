// How much of what streams ask of this process runs now. The end of the process waits for it for a while (at_exit.h).
#pragma once

#include <atomic>

#include "client-stub/process/process_part.h"

namespace tessera {

struct StreamRuns {
  static StreamRuns& Process() { return PartOfProcess<StreamRuns>::Get(); }

  std::atomic<int> functions{0};  // host functions of the program, of any length
  std::atomic<int> visits{0};     // the library's own work, which copies to and from memory of the program

  // Counts a run in, before it looks whether the process ends, and out.
  class Counted {
   public:
    explicit Counted(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
    ~Counted() { count_.fetch_sub(1); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    std::atomic<int>& count_;
  };
};

}  // namespace tessera
