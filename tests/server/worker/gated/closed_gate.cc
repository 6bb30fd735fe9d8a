#include "tests/server/worker/gated/closed_gate.h"

#include <sys/eventfd.h>

#include <functional>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/object_table.h"
#include "tests/server/worker/gated/arguments.h"
#include "tests/server/worker/gated/places.h"

namespace tessera {
namespace {

constexpr int kLongMs = 10'000;
constexpr HandleKind kLastKind = HandleKind::kLogsCallback;

// What streams were given to call. They do once the session is over: nobody answers for the program here.
std::vector<std::function<void()>> given_to_call;
decltype(DriverTable::cuLaunchHostFunc) record_host_function = nullptr;
decltype(DriverTable::cuStreamAddCallback) record_callback = nullptr;

void KeepHostFunctions(DriverTable& table) {
  record_host_function = table.cuLaunchHostFunc;
  record_callback = table.cuStreamAddCallback;
  table.cuLaunchHostFunc = [](CUstream stream, CUhostFn function, void* data) {
    given_to_call.push_back([=] { function(data); });
    return record_host_function(stream, function, data);
  };
  table.cuStreamAddCallback = [](CUstream stream, CUstreamCallback function, void* data, unsigned flags) {
    given_to_call.push_back([=] { function(stream, CUDA_SUCCESS, data); });
    return record_callback(stream, function, data, flags);
  };
}

}  // namespace

ClosedGate::ClosedGate(bool mirrored) : event_(eventfd(0, EFD_NONBLOCK)) {
  PrepareDriver();
  page_.row_count = 1;
  page_.alive_ns = UINT64_MAX;  // the broker is never silent
  SetGate({GateMode::kMetered, false, 0});
  ChannelSizes sizes;
  sizes.command_bytes = sizes.reply_bytes = 64 << 10;
  sizes.staging_bytes = 64 << 10;
  WorkerOptions options;
  options.windows = Windows();
  options.client_in_process = true;
  options.gate = GatePages{&page_, &report_, event_.get()};
  client_ = std::make_unique<TestClient>(driver_.table(), sizes, options, mirrored);
  EnterObjects();
  MakeMemory(mirrored);
  driver_.Clear();
}

ClosedGate::~ClosedGate() {
  client_.reset();
  for (const auto& call : given_to_call) call();
  given_to_call.clear();
}

// What it answers is enough for a worker: one GPU that can do everything, whose identity is all zeros as the page's, memory that
// has the same address everywhere, and streams that say that they are captured to whoever wants to know more.
void ClosedGate::PrepareDriver() {
  DriverTable& table = driver_.table();
  table.cuDeviceGetCount = [](int* count) {
    *count = 1;
    return CUDA_SUCCESS;
  };
  table.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 1;
    return CUDA_SUCCESS;
  };
  table.cuMemAddressReserve = [](CUdeviceptr* address, size_t, size_t, CUdeviceptr wanted, unsigned long long) {
    *address = wanted;
    return CUDA_SUCCESS;
  };
  table.cuMemGetAllocationGranularity = [](size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
    *bytes = size_t{2} << 20;
    return CUDA_SUCCESS;
  };
  table.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* device, void* host, unsigned) {
    *device = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  };
  table.cuStreamGetCaptureInfo_v2 = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                       size_t*) {
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  };
  KeepHostFunctions(table);
  driver_.SetResult("cuFuncGetParamInfo", CUDA_ERROR_INVALID_VALUE);  // there are no parameters
}

void ClosedGate::EnterObjects() {
  for (uint32_t kind = 1; kind <= static_cast<uint32_t>(kLastKind); ++kind) {
    CHECK(client_->worker().objects().Insert(Arguments::Live(HandleKind{static_cast<uint8_t>(kind)}), uint64_t{kind} << 12));
  }
}

void ClosedGate::MakeMemory(bool mirrored) {
  Worker& worker = client_->worker();
  SessionMemory& memory = worker.parts().memory();
  CHECK(memory.mirrors().Open(0, Range{MirroredMemory(), kBytes}, 1) == CUDA_SUCCESS);
  if (mirrored) return;
  Result<uint32_t> segment = client_->channel().OfferSegment(SegmentKind::kHostMemory, kBytes, MapPlacement::Anywhere());
  CHECK(segment.ok());
  pinned_ = reinterpret_cast<uint64_t>(worker.channel().Resolve(*segment, 0, kBytes).data());
  CHECK(memory.host().Attach(0, *segment, Range{pinned_, kBytes}) == CUDA_SUCCESS);
}

void ClosedGate::SetGate(const GateWord& word) {
  page_.rows[0].gate = word.Pack();
  page_.closed_rows = 1;
  ++page_.changes;
  FutexWakeAll(&page_.changes);
}

Passage ClosedGate::Send(uint32_t call, std::span<const std::byte> message) {
  Passage passage;
  const uint64_t sequence = client_->Send(call, kWantsReply, 1, Arguments::Live(HandleKind::kContext), message);
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{kLongMs} * 1'000'000;
  while (!passage.reply && !waits() && MonotonicNs() < deadline_ns) passage.reply = ReplyTo(sequence, 1);
  passage.before = driver_.calls();
  if (passage.reply || !waits()) return passage;
  passage.waited = true;
  driver_.Clear();
  SetGate({GateMode::kMetered, false, MonotonicNs() + uint64_t{kLongMs} * 1'000'000});
  passage.reply = ReplyTo(sequence, kLongMs);
  passage.after = driver_.calls();
  return passage;
}

std::optional<TestReply> ClosedGate::ReplyTo(uint64_t sequence, int timeout_ms) {
  while (std::optional<TestReply> record = client_->Next(timeout_ms)) {
    const bool is_reply = record->header.kind == static_cast<uint32_t>(ReplyKind::kReply);
    if (is_reply && record->header.sequence == sequence) return record;
  }
  return std::nullopt;
}

}  // namespace tessera
