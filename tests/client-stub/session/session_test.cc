// Sending and receiving: replies, failures that come later, notices, many threads, the end of the server.
#include "client-stub/session/session.h"

#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/code/blob.h"
#include "client-stub/process/statistics.h"
#include "client-stub/session/client.h"
#include "tests/client-stub/session/fake_server.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr CallInfo Info(const char* name, uint32_t id, CallInfo::Mode mode, bool deferred) {
  return CallInfo{name, id, mode, CallInfo::Context::kNone, CallInfo::Capture::kLegal, deferred, ""};
}
constexpr auto kOtherNotice = static_cast<NoticeKind>(100);  // none that the session handles itself
constexpr CallInfo kEcho = Info("echo", 0x7001, CallInfo::Mode::kSync, false);
constexpr CallInfo kFire = Info("fire", 0x7002, CallInfo::Mode::kAsync, true);
constexpr CallInfo kFail = Info("fail", 0x7003, CallInfo::Mode::kAsync, true);
constexpr CallInfo kCheck = Info("check", 0x7004, CallInfo::Mode::kSync, true);
constexpr CallInfo kNever = Info("never", 0x7005, CallInfo::Mode::kSync, false);

// Of a function that no driver has: its message is written by hand.
class InventedCall : public Call {
 public:
  using Call::Begin;
  using Call::Call;
  using Call::SendAsync;
  using Call::SendSync;
};

// kEcho is answered with its own message, kFail becomes a deferred error (the message says which), kNever has no
// answer.
void Script(FakeServer& server, const RecordHeader& header, std::span<const std::byte> message) {
  if (header.call == kFail.id) {
    int32_t code = 0;
    std::memcpy(&code, message.data(), sizeof(code));
    server.Notice(NoticeKind::kDeferredError, header.context, static_cast<CUresult>(code), header.thread);
  }
  if ((header.flags & kWantsReply) == 0 || header.call == kNever.id) return;
  server.Reply(header, CUDA_SUCCESS, header.call == kEcho.id ? message : std::span<const std::byte>());
}

CUresult Echo(uint64_t value, uint64_t* answer) {
  InventedCall call(kEcho, false);
  if (!call.ok()) return call.result();
  call.Begin().Pod(value);
  Decoder in;
  const CUresult result = call.SendSync(&in);
  if (result == CUDA_SUCCESS) *answer = in.Pod<uint64_t>();
  return result;
}

CUresult Send(const CallInfo& info, int32_t value = 0) {
  InventedCall call(info, false);
  if (!call.ok()) return call.result();
  call.Begin().Pod(value);
  if (info.mode == CallInfo::Mode::kAsync) return call.SendAsync();
  Decoder in;
  return call.SendSync(&in);
}

TEST(Session, AnswersComeBack) {
  FakeServer server(Script);
  for (uint64_t i = 0; i < 2000; ++i) {
    uint64_t answer = 0;
    ASSERT_EQ(Echo(i, &answer), CUDA_SUCCESS);
    ASSERT_EQ(answer, i);
  }
}

// The size of a result is the server's word: no memory is taken for more than can be.
TEST(Session, AResultOfImpossibleSizeIsNotFetched) {
  FakeServer server(Script);
  std::vector<std::byte> bytes;
  const CallInfo info = Info("fetches", 0x7001, CallInfo::Mode::kSync, false);
  const Call call(info, false);
  EXPECT_EQ(FetchBlob(call, 1, uint64_t{1} << 60, &bytes), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(bytes.capacity(), 0u);
}

TEST(Session, ThreadsDoNotMixUpTheirAnswers) {
  FakeServer server(Script);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 500; ++i) {
        uint64_t answer = 0;
        if (Send(kFire) != CUDA_SUCCESS || Echo(t << 32 | i, &answer) != CUDA_SUCCESS || answer != (t << 32 | i)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const std::vector<RecordHeader> headers = server.Headers();
  for (size_t i = 0; i < headers.size(); ++i) ASSERT_EQ(headers[i].sequence, i + 1);
}

TEST(Session, AFullRingHoldsUpTheSenderOnly) {
  FakeServer server(Script);
  std::vector<std::byte> message(100'000);
  for (int i = 0; i < 200; ++i) {
    InventedCall call(kFire, false);
    call.Begin().Raw(message);
    ASSERT_EQ(call.SendAsync(), CUDA_SUCCESS);
  }
  EXPECT_EQ(Send(kCheck), CUDA_SUCCESS);
  EXPECT_EQ(server.Count(kFire.id), 200u);
}

TEST(Session, ARecordThatIsTooLargeIsRefused) {
  FakeServer server(Script);
  std::vector<std::byte> message(server.session().record_bytes_max());
  InventedCall call(kFire, false);
  call.Begin().Raw(message);
  EXPECT_EQ(call.SendAsync(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Send(kCheck), CUDA_SUCCESS) << "the session goes on";
}

TEST(Session, AFailedAsynchronousCallIsReportedOnceToItsThread) {
  FakeServer server(Script);
  ASSERT_EQ(Send(kFail, CUDA_ERROR_INVALID_VALUE), CUDA_SUCCESS);
  uint64_t answer = 0;
  ASSERT_EQ(Echo(1, &answer), CUDA_SUCCESS) << "a call that never returns earlier failures";
  std::thread([] { EXPECT_EQ(Send(kCheck), CUDA_SUCCESS) << "another thread"; }).join();
  EXPECT_EQ(Send(kCheck), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Send(kCheck), CUDA_SUCCESS);
}

TEST(Session, ABrokenContextStaysBrokenUntilItIsReset) {
  FakeServer server(Script);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(Send(kFail, CUDA_ERROR_ILLEGAL_ADDRESS), CUDA_SUCCESS);
  uint64_t answer = 0;
  ASSERT_EQ(Echo(1, &answer), CUDA_SUCCESS);
  EXPECT_EQ(Send(kCheck), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(Send(kCheck), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::thread([&] {
    EXPECT_EQ(Send(kCheck), CUDA_SUCCESS) << "without that context";
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(Send(kCheck), CUDA_ERROR_ILLEGAL_ADDRESS);
  }).join();
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS) << "what natively still works";
  EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(Send(kCheck), CUDA_SUCCESS);
}

TEST(Session, MarksAreWaitedForAndNoticesReachTheirHandler) {
  FakeServer server([](FakeServer& self, const RecordHeader& header, std::span<const std::byte> message) {
    uint64_t mark = 0;
    std::memcpy(&mark, message.data(), sizeof(mark));
    self.Notice(kOtherNotice, mark);
    std::this_thread::sleep_for(milliseconds(20));
    self.Notice(NoticeKind::kCompletion, mark, mark == 2 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
  });
  std::atomic<uint64_t> updates{0};
  server.session().OnNotice(kOtherNotice, [&](const ReplyHeader&, std::span<const std::byte>) { ++updates; });
  for (uint64_t i = 1; i <= 2; ++i) {
    const uint64_t mark = server.session().marks().Open();
    EXPECT_EQ(mark, i);
    InventedCall call(kFire, false);
    call.Begin().Pod(mark);
    ASSERT_EQ(call.SendAsync(), CUDA_SUCCESS);
    EXPECT_EQ(server.session().WaitForMark(mark), i == 2 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
    EXPECT_EQ(updates, i);
  }
}

TEST(Session, NoticesAreHandledWhileNobodyWaits) {
  FakeServer server(Script);
  std::atomic<int> updates{0};
  server.session().OnNotice(kOtherNotice, [&](const ReplyHeader&, std::span<const std::byte>) { ++updates; });
  uint64_t answer = 0;
  for (int i = 0; i < 200; ++i) {
    // Between a call that reads by itself and one that does not, so that the role of reader keeps changing hands.
    ASSERT_EQ(Echo(i, &answer), CUDA_SUCCESS);
    server.Notice(kOtherNotice, 0);
    const auto deadline = steady_clock::now() + milliseconds(5000);
    while (updates <= i && steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(updates, i + 1) << "without anybody waiting for a reply";
  }
}

TEST(Session, HostFunctionsRunOnTheirOwnThreadInOrder) {
  FakeServer server(Script);
  std::vector<int> order;
  std::atomic<int> done{0};
  std::thread::id thread;
  for (int i = 0; i < 3; ++i) {
    server.session().host_functions().Post([&, i] {
      thread = std::this_thread::get_id();
      EXPECT_TRUE(ThreadState::Current().in_host_function);
      CUdevice device;
      EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_NOT_PERMITTED);
      const char* name = nullptr;
      EXPECT_EQ(cuGetErrorName(CUDA_SUCCESS, &name), CUDA_SUCCESS);
      order.push_back(i);
      ++done;
    });
  }
  while (done < 3) std::this_thread::yield();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Session, ADeadServerEndsWaitsAndLaterCallsSoon) {
  FakeServer server(Script);
  ASSERT_EQ(Send(kCheck), CUDA_SUCCESS);
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(Send(kNever), kServerGone);
      ++ended;
    });
  }
  while (server.Count(kNever.id) < 3) std::this_thread::yield();
  const auto start = steady_clock::now();
  server.Die();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(steady_clock::now() - start, milliseconds(2000));
  EXPECT_EQ(Send(kFire), kServerGone);
  EXPECT_EQ(Send(kCheck), kServerGone);
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS) << "what needs no server goes on";
}

TEST(Session, AnIdleSessionNoticesADeadServer) {
  FakeServer server(Script);
  server.Die();
  const auto deadline = steady_clock::now() + milliseconds(2000);
  while (!server.session().gone() && steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(server.session().gone());
}

TEST(Session, NonsenseFromTheServerEndsTheSession) {
  FakeServer server(Script);
  server.Notice(static_cast<NoticeKind>(99), 0);
  const auto deadline = steady_clock::now() + milliseconds(2000);
  while (!server.session().gone() && steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(server.session().gone());
}

TEST(Session, HandlesEndWithTheirCalls) {
  FakeServer server(Script);
  HandleId minted;
  {
    InventedCall call(kFire, false);
    minted = call.Mint(HandleKind::kEvent);
    call.Begin();
    EXPECT_EQ(call.SendAsync(), CUDA_SUCCESS);
  }
  EXPECT_TRUE(server.session().handles().IsLive(minted));
  HandleId failed;
  {
    Call call(kFire, false);
    failed = call.Mint(HandleKind::kEvent);
    call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_FALSE(server.session().handles().IsLive(failed));
  {
    Call call(kFire, false);
    EXPECT_EQ(call.Use(HandleKind::kStream, minted.value()).value(), 0u) << "of another kind";
    EXPECT_EQ(call.result(), CUDA_ERROR_INVALID_HANDLE);
  }
  {
    Call call(kFire, false);
    call.Use(HandleKind::kGraph, uint64_t{0});
    EXPECT_EQ(call.result(), CUDA_ERROR_INVALID_VALUE) << "the kind's own code";
  }
  {
    InventedCall call(kFire, false);
    EXPECT_EQ(call.Use(HandleKind::kEvent, uint64_t{0}, true).value(), 0u);
    EXPECT_TRUE(call.ok());
    EXPECT_EQ(call.Free(HandleKind::kEvent, minted.value()), minted);
    call.Begin();
    EXPECT_EQ(call.SendAsync(), CUDA_SUCCESS);
  }
  EXPECT_FALSE(server.session().handles().IsLive(minted));
}

TEST(Session, TheServerHearsThatAThreadHasEnded) {
  FakeServer server(Script);
  std::thread([] { EXPECT_EQ(Send(kFire), CUDA_SUCCESS); }).join();
  EXPECT_EQ(Send(kCheck), CUDA_SUCCESS);
  EXPECT_EQ(server.Count(0x0001), 1u);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads
TEST(Session, AForkedChildHasNoCudaAndTheParentGoesOn) {
  FakeServer server(Script);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int failures = 0;
    int value = 0;
    const char* name = nullptr;
    CUdevice device = 0;
    failures += cuInit(0) != CUDA_ERROR_NOT_INITIALIZED;
    failures += cuDeviceGetCount(&value) != CUDA_ERROR_NOT_INITIALIZED;
    failures += cuCtxGetDevice(&device) != CUDA_ERROR_NOT_INITIALIZED;
    failures += cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED;
    failures += cuDriverGetVersion(&value) != CUDA_SUCCESS;
    failures += cuGetErrorName(CUDA_SUCCESS, &name) != CUDA_SUCCESS;
    _exit(failures);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  uint64_t answer = 0;
  EXPECT_EQ(Echo(5, &answer), CUDA_SUCCESS);
  EXPECT_EQ(answer, 5u);
}
#endif

TEST(Statistics, CountsByFunction) {
  Statistics statistics(ProcessFile("1"));
  statistics.CountCall(kEcho);
  statistics.CountCall(kEcho);
  statistics.CountSent(kEcho, 40);
  statistics.CountRoundTrip(kEcho, 8);
  statistics.CountWait(kEcho, 1234);
  EXPECT_NE(
      statistics.ToJson().find(R"("echo": {"calls": 2, "round_trips": 1, "bytes_out": 40, "bytes_in": 8, "waited_ns": 1234})"),
      std::string::npos)
      << statistics.ToJson();
  EXPECT_NE(statistics.ToTable().find("echo"), std::string::npos);
}

TEST(Statistics, ARegionCountsWhatItEncloses) {
  constexpr CallInfo kOuter = Info("outer", 0x11, CallInfo::Mode::kSync, false);
  constexpr CallInfo kInner = Info("inner", 0x12, CallInfo::Mode::kSync, false);
  Statistics statistics(ProcessFile("1"));
  statistics.CountCall(kOuter);
  statistics.EndRegion();  // none has begun
  statistics.BeginRegion();
  statistics.BeginRegion();
  statistics.CountCall(kInner);
  statistics.CountRoundTrip(kInner, 8);
  statistics.EndRegion();
  statistics.CountCall(kOuter);
  const std::string json = statistics.ToJson();
  const size_t regions = json.find("\"regions\"");
  ASSERT_NE(regions, std::string::npos);
  EXPECT_NE(json.find(R"("inner": {"calls": 1, "round_trips": 1)", regions), std::string::npos) << json;
  EXPECT_EQ(json.find("\"outer\"", regions), std::string::npos) << json;
  EXPECT_NE(json.find(R"("outer": {"calls": 2)"), std::string::npos) << json;
}

}  // namespace
}  // namespace tessera
