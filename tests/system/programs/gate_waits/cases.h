// The cases, by name.
#pragma once

#include <string>

namespace gate_waits {

class Pair;  // pair.h

// A case of one process: false, and nothing was done, when there is none of that name.
bool RunBehind(const std::string& name);     // behind.cc
bool RunCapture(const std::string& name);    // capture.cc
bool RunFunctions(const std::string& name);  // functions.cc
bool RunThreads(const std::string& name);    // threads.cc

// A case of two processes, which both run it; null when there is none of that name.
using PairCase = void (*)(Pair& pair, bool first);
PairCase FindPair(const std::string& name);  // pair_cases.cc

}  // namespace gate_waits
