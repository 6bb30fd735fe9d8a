// Launches behind a stream that waits, and what lets it go on.
#include "cases.h"
#include "parts.h"

namespace gate_waits {

namespace {

// A stream that waits, `--launches` steps behind that, and what lets them go on.
void Behind(bool spins, const std::string& release) {
  const CUstream stream = NewStream(), other = NewStream();
  const Words words;
  Learn(stream);
  uint32_t* host = nullptr;
  CUdeviceptr flag = words.at(kFlag);
  CHECK_DRIVER(cuMemHostAlloc(reinterpret_cast<void**>(&host), sizeof(*host), CU_MEMHOSTALLOC_DEVICEMAP));
  *host = release == "host" ? 0 : 1;
  if (release == "host") CHECK_DRIVER(cuMemHostGetDevicePointer(&flag, host, 0));
  if (spins) {
    AwaitFlag(stream, flag, 1);
  } else {
    CHECK_DRIVER(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  for (uint32_t i = 0; i < options.launches; ++i) Step(stream, flag, words.at(kSum));
  if (release == "record") CHECK_DRIVER(cuStreamWriteValue32(other, flag, 1, 0));
  if (release == "kernel") SetFlag(other, flag, 1);
  if (release == "copy") {
    CHECK_DRIVER(cuMemcpyHtoDAsync(words.at(kOther), host, sizeof(*host), other));
    CHECK_DRIVER(cuMemcpyDtoDAsync(flag, words.at(kOther), sizeof(*host), other));
  }
  if (release == "host") __atomic_store_n(host, 1, __ATOMIC_RELEASE);
  CHECK_DRIVER(cuStreamSynchronize(stream));
  EXPECT_EQ(words.Read(kSum), options.launches);
  CHECK_DRIVER(cuMemFreeHost(host));
  CHECK_DRIVER(cuStreamDestroy(stream));
  CHECK_DRIVER(cuStreamDestroy(other));
}

}  // namespace

bool RunBehind(const std::string& name) {
  for (const char* const release : {"record", "kernel", "copy", "host"}) {
    if (name == std::string("value-") + release) return Behind(false, release), true;
    if (name == std::string("spin-") + release) return Behind(true, release), true;
  }
  return false;
}

}  // namespace gate_waits
