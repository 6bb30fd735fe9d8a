// Two processes that wait for each other, in one vGPU or in two.
#include "cases.h"
#include "pair.h"

namespace gate_waits {

namespace {

// In turns: each one's step waits for the other's last one by an event, and nothing else keeps them apart.
void Events(Pair& pair, bool first) {
  CHECK_DRIVER(cuMemsetD32Async(pair.at(kFlag), 1, 1, pair.stream));
  CHECK_DRIVER(cuStreamSynchronize(pair.stream));
  for (uint32_t i = 0; i < options.rounds; ++i) {
    if (!first || i > 0) {
      pair.Hear();
      CHECK_DRIVER(cuStreamWaitEvent(pair.stream, pair.others, 0));
    }
    Step(pair.stream, pair.at(kFlag), pair.at(kSum));
    CHECK_DRIVER(cuEventRecord(pair.own, pair.stream));
    pair.Tell();
  }
  if (first) {
    pair.Hear();
    CHECK_DRIVER(cuStreamWaitEvent(pair.stream, pair.others, 0));
    EXPECT_EQ(pair.Read(kSum), 2 * options.rounds);
  }
}

// The same by a number in the memory of both, all rounds enqueued at once.
void Turns(Pair& pair, bool first, bool spins) {
  for (uint32_t i = 0; i < options.rounds; ++i) {
    const uint32_t turn = 2 * i + (first ? 0 : 1);
    if (spins) {
      AwaitFlag(pair.stream, pair.at(kOther), turn);
    } else {
      CHECK_DRIVER(cuStreamWaitValue32(pair.stream, pair.at(kOther), turn, CU_STREAM_WAIT_VALUE_GEQ));
    }
    Step(pair.stream, pair.at(kOther), pair.at(kSum));
    if (spins) {
      SetFlag(pair.stream, pair.at(kOther), turn + 1);
    } else {
      CHECK_DRIVER(cuStreamWriteValue32(pair.stream, pair.at(kOther), turn + 1, 0));
    }
  }
  CHECK_DRIVER(cuStreamSynchronize(pair.stream));
  pair.Tell();
  pair.Hear();
  EXPECT_EQ(pair.Read(kSum), 2 * options.rounds - 1);  // the very first one saw no flag
}

// One's launches behind an event that is recorded behind the other's work, which waits for the program.
void BehindEvent(Pair& pair, bool first) {
  if (first) {
    pair.Hear();
    CHECK_DRIVER(cuStreamWaitEvent(pair.stream, pair.others, 0));
    for (uint32_t i = 0; i < options.launches; ++i) Step(pair.stream, pair.at(kFlag), pair.at(kSum));
    pair.Tell();
    EXPECT_EQ(pair.Read(kSum), options.launches);
  } else {
    CHECK_DRIVER(cuStreamWaitValue32(pair.stream, pair.at(kOther), 1, CU_STREAM_WAIT_VALUE_GEQ));
    SetFlag(pair.stream, pair.at(kFlag), 1);
    CHECK_DRIVER(cuEventRecord(pair.own, pair.stream));
    pair.Tell();
    pair.Hear();
    const CUstream other = NewStream();
    SetFlag(other, pair.at(kOther), 1);
    CHECK_DRIVER(cuStreamSynchronize(other));
    CHECK_DRIVER(cuStreamDestroy(other));
  }
}

// A kernel that waits for long. The other process works meanwhile.
void Long(Pair& pair, bool first) {
  if (first) {
    AwaitFlag(pair.stream, pair.at(kFlag), 1);
    Step(pair.stream, pair.at(kFlag), pair.at(kSum));
    pair.Tell();
    EXPECT_EQ(pair.Read(kSum), 1u);
  } else {
    pair.Hear();
    const Words words;
    const Clock::time_point end = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(options.seconds * 1e6));
    while (Clock::now() < end) {
      Step(pair.stream, words.at(kFlag), words.at(kSum));
      CHECK_DRIVER(cuStreamSynchronize(pair.stream));
    }
    const uint32_t one = 1;
    CHECK_DRIVER(cuMemcpyHtoD(pair.at(kFlag), &one, sizeof(one)));
  }
}

}  // namespace

PairCase FindPair(const std::string& name) {
  if (name == "events") return Events;
  if (name == "flags") return [](Pair& pair, bool first) { Turns(pair, first, true); };
  if (name == "values") return [](Pair& pair, bool first) { Turns(pair, first, false); };
  if (name == "event") return BehindEvent;
  if (name == "long") return Long;
  return nullptr;
}

}  // namespace gate_waits
