// A gate over pages that a test writes as a broker does, and a driver whose streams are busy as long as it says.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <thread>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "protocol/base/unique_fd.h"
#include "server/worker/gate/busy_streams.h"
#include "server/worker/gate/gate.h"
#include "server/worker/threads/thread_contexts.h"
#include "tests/server/worker/one_gpu.h"

namespace tessera {

inline constexpr uint64_t kMs = 1'000'000;
inline const CUcontext kContext = reinterpret_cast<CUcontext>(0x300);
inline const CUstream kCaptured = reinterpret_cast<CUstream>(0x200);
inline std::set<CUstream> g_captures;  // they capture as well

// A device whose streams are busy as long as the test says.
inline std::atomic<bool> g_busy{false};
inline std::atomic<int> g_questions{0};
inline std::atomic<int> g_question_us{0};  // how long each takes
inline std::atomic<int> g_destroyed{0};
inline std::atomic<int> g_events{0};          // there are
inline std::atomic<bool> g_no_event{false};   // can be made,
inline std::atomic<bool> g_no_record{false};  // can be put into a stream

inline DriverTable MakeGateDriver() {
  DriverTable table{};
  AddOneGpu(table);
  table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  table.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  table.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    const bool captures = stream == kCaptured || g_captures.contains(stream);
    *status = captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  table.cuStreamGetCtx = [](CUstream, CUcontext* context) {
    *context = kContext;
    return CUDA_SUCCESS;
  };
  table.cuStreamGetFlags = [](CUstream, unsigned* flags) {
    *flags = CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
  };
  table.cuStreamQuery = [](CUstream stream) {
    EXPECT_NE(stream, kCaptured) << "a question ends a capture";
    EXPECT_FALSE(g_captures.contains(stream)) << "a question ends a capture";
    ++g_questions;
    if (g_question_us > 0) usleep(static_cast<useconds_t>(g_question_us));
    return g_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  };
  table.cuEventCreate = [](CUevent* event, unsigned) {
    if (g_no_event) return CUDA_ERROR_OUT_OF_MEMORY;
    *event = reinterpret_cast<CUevent>(0x400);
    ++g_events;
    return CUDA_SUCCESS;
  };
  table.cuEventRecord = [](CUevent, CUstream) { return g_no_record ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS; };
  table.cuEventQuery = [](CUevent) { return g_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
  table.cuEventDestroy_v2 = [](CUevent) {
    --g_events;
    return CUDA_SUCCESS;
  };
  table.cuStreamDestroy_v2 = [](CUstream) {
    ++g_destroyed;
    return CUDA_SUCCESS;
  };
  return table;
}

class GateTest : public testing::Test {
 protected:
  GateTest() : driver_(MakeGateDriver()), contexts_(driver_), event_(eventfd(0, EFD_NONBLOCK)) {
    g_busy = false;
    g_questions = 0;
    g_question_us = 0;
    g_destroyed = 0;
    g_events = 0;
    g_no_event = g_no_record = false;
    g_captures.clear();
    page_.row_count = 1;
    std::memset(page_.rows[0].uuid, kOneGpuUuid, sizeof(page_.rows[0].uuid));
    page_.alive_ns = UINT64_MAX;  // nothing here is about a broker that is silent, unless it says so
    gate_ = std::make_unique<Gate>(driver_, contexts_, streams_, GatePages{&page_, &report_, event_.get()});
    Rings();
  }

  void Set(const GateWord& word) {
    page_.rows[0].gate = word.Pack();
    page_.closed_rows = word.mode == GateMode::kFree ? 0 : 1;
    ++page_.changes;
    FutexWakeAll(&page_.changes);
  }
  void OpenFor(uint64_t ns) { Set({GateMode::kMetered, false, MonotonicNs() + ns}); }
  void Close() { Set({GateMode::kMetered, false, 0}); }

  // As a handler does.
  void Work(uint64_t kind) { Work(kind, stream_); }
  void Work(uint64_t kind, CUstream stream) {
    streams_.Touch(stream);
    if (gate_->closed()) gate_->Await(stream, kind);
  }
  uint64_t Rings() {
    uint64_t count = 0;
    return read(event_.get(), &count, sizeof(count)) == sizeof(count) ? count : 0;
  }
  const ReportPage::Row& row() const { return report_.rows[0]; }

  // Another one in each test: a thread remembers the stream that it used last.
  static inline uintptr_t next_stream_ = 0x1000;
  const CUstream stream_ = reinterpret_cast<CUstream>(next_stream_ += 0x100);
  const DriverTable driver_;
  ThreadContexts contexts_;
  BusyStreams streams_;
  GatePage page_{};
  ReportPage report_{};
  const UniqueFd event_;
  std::unique_ptr<Gate> gate_;
};

}  // namespace tessera
