// What `tessera trace` was told.
#pragma once

#include <string>

namespace tessera {

struct TraceOptions {
  std::string action;
  std::string file;
  std::string output = "text";  // or "json"
};

}  // namespace tessera
