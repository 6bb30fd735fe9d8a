// The same tests without a part of Tessera in the program: on the real driver they show that their expectations are right
// (but for handles that were destroyed, which the driver does not check and which crash it, and copies to ordinary memory),
// under `tessera run` that the product meets them. See tests/gpu/README.md.
#include "tests/client-stub/both_ends.h"

namespace tessera {

class Mirror {};
class Session {};

BothEnds::BothEnds(void (*)(DriverTable&)) {
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context_, 0);
  cuCtxSetCurrent(context_);
}

BothEnds::~BothEnds() = default;

BothEnds& Ends() {
  static auto* ends = new BothEnds;
  return *ends;
}

}  // namespace tessera
