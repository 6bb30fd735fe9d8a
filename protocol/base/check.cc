#include "protocol/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tessera {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "tessera: check failed: %s at %s:%d; this is a bug in tessera\n", expression, file, line);
  std::abort();
}

}  // namespace tessera
