#include "server/broker/awake_time.h"

#include <algorithm>

namespace tessera {

void AwakeTime::Expect(int64_t at_ns, int64_t now_ns) {
  saved_ns_ = std::min(kSavedMaxNs, saved_ns_ + (now_ns - saved_at_ns_) / kShare);
  saved_at_ns_ = now_ns;
  begin_ns_ = INT64_MAX;
  end_ns_ = 0;
  if (!is_worth_it_ || saved_ns_ <= 0 || at_ns == INT64_MAX || now_ns >= at_ns + kAfterNs) return;
  begin_ns_ = at_ns - kBeforeNs;
  end_ns_ = at_ns + kAfterNs;
}

}  // namespace tessera
