// How many host functions of the program run now: the end of the process waits for them for a while (at_exit.h).
#pragma once

#include <atomic>

#include "client-stub/process/process_part.h"

namespace tessera {

class ProgramFunctions {
 public:
  static ProgramFunctions& Process() { return PartOfProcess<ProgramFunctions>::Get(); }
  // Counted before its thread looks whether the process ends.
  void Begin() { running_.fetch_add(1); }
  void End() { running_.fetch_sub(1); }
  int running() const { return running_.load(); }

 private:
  std::atomic<int> running_{0};
};

}  // namespace tessera
