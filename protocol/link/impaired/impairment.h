// How much worse a link is made: for tests, and for measuring the cost of a network without having one.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/base/status.h"

namespace tessera {

struct Impairment {
  uint64_t delay_ns = 0;          // one way, of every frame
  uint64_t jitter_ns = 0;         // up to this much more, at random; order is kept
  uint64_t bytes_per_second = 0;  // 0: as fast as the link behind
  uint64_t stall_ns = 0;          // now and then nothing moves for so long
  uint32_t stall_one_in = 1000;   // frames
  uint64_t cut_after_frames = 0;  // instead of the next frame the link is dropped; 0: never
  uint64_t cut_after_bytes = 0;   // the frame that exceeds so many bytes is lost with the link; 0: never
  uint64_t seed = 1;              // the same seed and the same frames: the same impairment

  // Reads "delay=0.05ms,rate=10gbit": any of delay, jitter and stall (each a number with us, ms or s, of one direction) and
  // rate (kbit, mbit or gbit per second, of each direction; a thousand of one is the next), separated by commas.
  // kInvalidArgument with what it did not understand and the form it takes.
  static Result<Impairment> Parse(std::string_view text);
};

}  // namespace tessera
