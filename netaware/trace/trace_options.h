// The options of `tessera trace`.
#pragma once

#include <string>

namespace tessera {

struct TraceOptions {
  std::string action;
  std::string file;
  std::string output = "text";  // or "json"
};

}  // namespace tessera
