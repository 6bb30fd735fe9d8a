// What of the program's memory the device may touch because of a record: protocol/spec says it of each call (`work`), the
// generator writes it into the request. Some of that memory is in this process too, so the client prepares it before the record,
// and appends such records through one of the classes of client-stub/device_work/device_work.h alone.
#pragma once

#include <cstdint>

namespace tessera {

enum class Touches : uint8_t {
  kNothing,
  kMirrors,   // words that a stream writes
  kRanges,    // what a copy or a set names
  kAnything,  // what a kernel has an address of
};

template <typename Request>
consteval Touches TouchesOf() {
  if constexpr (requires { Request::kTouches; }) return Request::kTouches;
  return Touches::kNothing;
}

// Requests of which nothing has to be prepared: any call may append them.
template <typename Request>
concept TouchesNothing = TouchesOf<Request>() == Touches::kNothing;

}  // namespace tessera
