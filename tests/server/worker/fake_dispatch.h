// The calls that the tests of the worker's core use in place of the generated ones.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

enum TestCall : uint32_t {
  kTestEcho = 1,      // replies the message
  kTestResult,        // message: u32 CUresult; ends with it
  kTestBlock,         // blocking: waits until g_test_release
  kTestContext,       // replies the current context and capture mode of the thread
  kTestUseStream,     // message: handle; replies the driver's stream
  kTestUseEvent,      // message: handle; the result tells whether it is known
  kTestNewEvent,      // message: handle, u64 object
  kTestSync,          // message: handle of a stream; ends when its work is done
  kTestHostFunction,  // on a helper thread: asks the client, ends when it answered
  kTestScratch,       // message: u64 bytes; ends with the verdict of Scratch()
  kTestFlood,         // message: u32 count: so many notices of 1 KiB
  kTestThreadEnded,   // message: u32 thread
  kTestStall,         // blocks the executor itself until g_test_release, as a launch into a full queue does
};

inline std::atomic<bool> g_test_release{false};

}  // namespace tessera
