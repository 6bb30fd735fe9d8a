// Ways to copy host memory that a GPU reads or wrote, one after the other by each thread: for shadow_bench, which compares them
// with the product's own.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera {

struct CopyWay {
  const char* name;
  const char* what;
  void (*copy)(void* to, const void* from, size_t bytes);  // null: the product's, Copier::CopyPiece
};

// Those that this processor can do.
std::vector<CopyWay> CopyWays();

}  // namespace tessera
