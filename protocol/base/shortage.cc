#include "protocol/base/shortage.h"

#include "protocol/base/log.h"

namespace tessera {

void Shortage::Begin(const Status& why, uint64_t now_ns) {
  if (until_ns_ == 0) LogWarning("{} rests until there is room: {}; {}", what_, why.message(), advice_);
  until_ns_ = now_ns + kPauseNs;
}

void Shortage::End() {
  if (until_ns_ != 0) LogWarning("{} goes on", what_);
  until_ns_ = 0;
}

}  // namespace tessera
