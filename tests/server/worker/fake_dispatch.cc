#include "tests/server/worker/fake_dispatch.h"

#include <unistd.h>

#include "generated/server/dispatch.h"
#include "server/worker/answer_hub.h"
#include "server/worker/call_context.h"
#include "server/worker/completion.h"
#include "server/worker/helper_pool.h"
#include "server/worker/thread_streams.h"
#include "server/worker/worker.h"
#include "tests/server/worker/fake_driver.h"

namespace tessera {
namespace {

struct NumbersReply {
  uint64_t first = 0;
  uint64_t second = 0;
  void Encode(Encoder& out) const {
    out.Pod(first);
    out.Pod(second);
  }
};

struct BytesReply {
  std::span<const std::byte> bytes;
  void Encode(Encoder& out) const { out.Raw(bytes); }
};

void AskClient(CallContext& call) {
  call.worker().helpers().Run([&worker = call.worker(), deferred = call.Defer()]() mutable {
    const uint64_t id = worker.answers().Open();
    const bool sent = worker.SendNotice(NoticeKind::kHostFunction, id);
    deferred.Finish(sent && worker.answers().Wait(id) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  });
}

void Sync(CallContext& call, HandleId id) {
  const CUstream stream = call.UseStream(id);
  if (!call.ok()) return call.Finish(call.error());
  const CUresult result =
      call.worker().completion().WhenDone(stream, [deferred = call.Defer()](CUresult done) mutable { deferred.Finish(done); });
  if (result != CUDA_SUCCESS) call.Finish(result);
}

}  // namespace

void Dispatch(uint32_t id, CallContext& call, Decoder& in) {
  switch (id) {
    case kTestEcho: return call.Finish(CUDA_SUCCESS, BytesReply{in.Raw(in.remaining())});
    case kTestResult: {
      const auto result = in.Pod<uint32_t>();
      return in.ok() ? call.Finish(static_cast<CUresult>(result)) : call.Malformed();
    }
    case kTestStall:
    case kTestBlock:
      while (!g_test_release.load()) usleep(200);
      return call.Finish(CUDA_SUCCESS, NumbersReply{reinterpret_cast<uint64_t>(FakeDriver::Current()), 0});
    case kTestContext:
      return call.Finish(CUDA_SUCCESS, NumbersReply{reinterpret_cast<uint64_t>(FakeDriver::Current()),
                                                    static_cast<uint64_t>(FakeDriver::CaptureMode())});
    case kTestUseStream: {
      const CUstream stream = call.UseStream(in.Pod<HandleId>());
      return call.Finish(call.error(), NumbersReply{reinterpret_cast<uint64_t>(stream), 0});
    }
    case kTestUseEvent: {
      const CUevent event = call.Use<CUevent>(in.Pod<HandleId>());
      return call.Finish(call.error(), NumbersReply{reinterpret_cast<uint64_t>(event), 0});
    }
    case kTestNewEvent: {
      const auto handle = in.Pod<HandleId>();
      call.New(handle, in.Pod<uint64_t>());
      return call.Finish(CUDA_SUCCESS);
    }
    case kTestSync: return Sync(call, in.Pod<HandleId>());
    case kTestHostFunction: return AskClient(call);
    case kTestScratch: {
      const void* first = call.Scratch(in.Pod<uint64_t>());
      return call.Finish(first == nullptr ? call.error() : CUDA_SUCCESS);
    }
    case kTestFlood: {
      const std::vector<std::byte> payload(1024);
      for (uint32_t left = in.Pod<uint32_t>(); left > 0; --left) {
        call.worker().SendNotice(NoticeKind::kDeviceOutput, left, CUDA_SUCCESS, payload);
      }
      return call.Finish(CUDA_SUCCESS);
    }
    case kTestThreadEnded:
      for (CUstream stream : call.worker().thread_streams().EndThread(in.Pod<uint32_t>()))
        call.driver().cuStreamDestroy_v2(stream);
      return call.Finish(CUDA_SUCCESS);
    default: return call.Malformed();
  }
}

bool IsBlocking(uint32_t id) { return id == kTestBlock; }
void AwaitTurnOf(uint32_t, CallContext&, Decoder&) {}
bool IsAside(uint32_t id) { return id == kTestEcho; }
const char* CallName(uint32_t) { return "test call"; }

}  // namespace tessera
