// What the spec says of a function of the driver. Constants: any thread.
#pragma once

#include <cstdint>

namespace tessera {

// One constant per function is generated (kInfo_<name>).
struct CallInfo {
  enum class Mode : uint8_t { kLocal, kCached, kAsync, kSync, kUnsupported };
  enum class Context : uint8_t { kRequired, kNone, kStream, kAny, kUninitialized };
  enum class Capture : uint8_t { kLegal, kUnsafe, kQuery };
  const char* name;
  uint32_t id;
  Mode mode;
  Context context;
  Capture capture;
  bool deferred_errors;  // an earlier asynchronous failure may be returned by this call
  const char* reason;    // of mode kUnsupported
  bool aside = false;    // from a host function it goes past the commands (Session::RequestAside)
};

}  // namespace tessera
