// A capture while the gate closes and opens.
#include "cases.h"
#include "parts.h"

namespace gate_waits {

namespace {

void Capture() {
  const CUstream stream = NewStream(), other = NewStream();
  const Words words;
  Learn(other);
  CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  Step(stream, words.at(kFlag), words.at(kSum));
  AwaitLine("captures");
  for (uint32_t i = 1; i < options.launches; ++i) {
    Step(stream, words.at(kFlag), words.at(kSum));
    if (i == 1) SetFlag(other, words.at(kFlag), 1);  // not captured, beside it
  }
  CHECK_DRIVER(cuMemcpyDtoDAsync(words.at(kOther), words.at(kSum), 4, stream));
  CUgraph graph;
  CUgraphExec instance;
  CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
  CHECK_DRIVER(cuGraphInstantiate(&instance, graph, 0));
  CHECK_DRIVER(cuStreamSynchronize(other));
  EXPECT_EQ(words.Read(kSum), 0u);
  AwaitLine("captured");
  for (int i = 0; i < 2; ++i) CHECK_DRIVER(cuGraphLaunch(instance, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(words.Read(kSum), 2 * options.launches);
  EXPECT_EQ(words.Read(kOther), 2 * options.launches);
  CHECK_DRIVER(cuGraphExecDestroy(instance));
  CHECK_DRIVER(cuGraphDestroy(graph));
  CHECK_DRIVER(cuStreamDestroy(stream));
  CHECK_DRIVER(cuStreamDestroy(other));
}

}  // namespace

bool RunCapture(const std::string& name) {
  if (name != "capture") return false;
  Capture();
  return true;
}

}  // namespace gate_waits
