// A link that is worse than the one behind it, for tests: delay, a limited rate, stalls. Frames still arrive once, whole and
// in order; only later, or, when it is to be cut, not at all.
#pragma once

#include <cstdint>
#include <memory>

#include "protocol/link/link.h"

namespace tessera {

struct Impairment {
  uint64_t delay_ns = 0;           // one way, of every frame
  uint64_t jitter_ns = 0;          // up to this much more, at random; order is kept
  uint64_t bytes_per_second = 0;   // 0: as fast as the link behind
  uint64_t stall_ns = 0;           // now and then nothing moves for so long
  uint32_t stall_one_in = 1000;    // frames
  uint64_t cut_after_frames = 0;   // the link is dropped instead of sending the next one; 0: never
  uint64_t cut_after_bytes = 0;    // the frame that would go beyond so many is lost with the link; 0: never
  uint64_t seed = 1;               // the same seed and the same frames: the same impairment
};

// What is sent through the result is impaired; what is received is not (impair the other end's for that). `link` outlives
// it. Up to 64 MiB are on their way, then Send waits.
std::unique_ptr<Link> MakeImpairedLink(Link& link, const Impairment& impairment);

}  // namespace tessera
