// The calls of protocol/spec that name a stream or give the device work: generated into tests/gated_calls.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/wire/encoder.h"
#include "tests/server/worker/gated/arguments.h"

namespace tessera {

struct GatedCall {
  const char* name;
  uint32_t id;
  // Encodes the call's request, filled from `given`.
  void (*encode)(Arguments& given, Encoder& out);
};

std::vector<GatedCall> AllGatedCalls();

}  // namespace tessera
