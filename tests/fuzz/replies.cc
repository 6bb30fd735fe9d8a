// The client library and a hostile server: calls of the driver API, whose replies, and notices between them, are the
// input. Input: for every call u16 which export; and whenever the server is asked: u8 flags (bits 0 and 1: so many
// notices first, bit 2: the call failed), for each notice u8 kind, u8 thread, u64 extra, u8 bytes and the payload, then
// u16 bytes and the reply.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "client-stub/session/client.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "tests/client-stub/session/fake_server.h"
#include "tests/fuzz/target.h"
#include "tests/protocol/spec/call_check.h"
#include "tests/protocol/spec/message_check.h"

extern "C" {
// Of the linker, in programs that libFuzzer drives.
extern char __start___sancov_cntrs[] __attribute__((weak));
extern char __stop___sancov_cntrs[] __attribute__((weak));
}

namespace tessera::fuzz {
namespace {

constexpr int kCallsMax = 6;
// A call that gets no answer ends when the server dies.
constexpr auto kPatience = std::chrono::milliseconds(100);
constexpr uint64_t kChildNs = 15'000'000'000;
// Of notices. Mostly those that a client expects: any other ends the session. Not kDeviceErrors, whose text goes to the
// terminal.
constexpr uint32_t kKinds[] = {2, 3, 4, 5, 7, 2, 3, 4, 5, 7, 2, 3, 5, 7, 5, 9};

// Without those that are given a function of the application's: the test's has another type, which the sanitizer minds.
const std::vector<TestedCall>& Calls() {
  static const std::vector<TestedCall> calls = [] {
    std::vector<TestedCall> all = AllCalls();
    std::erase_if(all, [](const TestedCall& call) {
      const std::string_view symbol = call.symbol;
      return symbol.find("Callback") != symbol.npos || symbol.find("HostFunc") != symbol.npos ||
             symbol.find("Notification") != symbol.npos || symbol.find("UserObject") != symbol.npos ||
             symbol.find("PotentialBlockSize") != symbol.npos;
    });
    return all;
  }();
  return calls;
}

// The server ends when a call takes too long.
class Patience {
 public:
  explicit Patience(FakeServer& server)
      : thread_([this, &server] {
          std::unique_lock lock(mutex_);
          for (int seen = -1; !over_;) {
            if (seen == count_) return server.Die();
            seen = count_;
            changed_.wait_for(lock, kPatience, [&] { return over_ || count_ != seen; });
          }
        }) {}
  ~Patience() {
    Change([this] { over_ = true; });
    thread_.join();
  }
  void NextCall() {
    Change([this] { ++count_; });
  }

 private:
  template <typename Act>
  void Change(const Act& act) {
    std::lock_guard lock(mutex_);
    act();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  bool over_ = false;
  std::thread thread_;
};

void AnswerBadly(FakeServer& server, const RecordHeader& header, Reader& reader) {
  const auto flags = reader.Take<uint8_t>();
  for (int notices = flags & 3; notices > 0; --notices) {
    const auto kind = static_cast<NoticeKind>(kKinds[reader.Take<uint8_t>() % std::size(kKinds)]);
    const auto thread = reader.Take<uint8_t>();
    const auto extra = reader.Take<uint64_t>();
    server.Notice(kind, extra, CUDA_SUCCESS, thread, reader.Bytes(reader.Take<uint8_t>()));
  }
  if ((header.flags & kWantsReply) == 0) return;
  const auto message = reader.Bytes(reader.Take<uint16_t>() % (32 << 10));
  server.Reply(header, (flags & 4) != 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS, message);
}

// In a process of its own: the client library keeps its one session as long as the process lives.
void RunInChild(std::span<const std::byte> input) {
  if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(1);  // text of kernels goes there
  Reader reader(input);
  std::mutex mutex;  // over the reader
  std::atomic<bool> hostile{false};
  FakeServer server([&](FakeServer& self, const RecordHeader& header, std::span<const std::byte>) {
    std::lock_guard lock(mutex);
    if (hostile && !reader.empty()) return AnswerBadly(self, header, reader);
    if ((header.flags & kWantsReply) != 0) self.Reply(header, hostile ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
  });
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  FUZZ_CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  FUZZ_CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  FUZZ_CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  FUZZ_CHECK(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  hostile = true;
  const auto live = [&](HandleKind kind) -> uint64_t {
    if (kind == HandleKind::kContext) return reinterpret_cast<uint64_t>(context);
    if (kind == HandleKind::kStream) return reinterpret_cast<uint64_t>(stream);
    if (kind == HandleKind::kEvent) return reinterpret_cast<uint64_t>(event);
    return server.session().handles().Mint(kind).value();
  };
  Patience patience(server);
  for (int i = 0; i < kCallsMax && !server.session().gone(); ++i) {
    const TestedCall* call = nullptr;
    {
      std::lock_guard lock(mutex);
      if (reader.empty()) _exit(0);
      call = &Calls()[reader.Take<uint16_t>() % Calls().size()];
    }
    patience.NextCall();
    ArgumentSource source(live, 0x200000000000);
    (void)call->invoke(source);
  }
  _exit(0);
}

// libFuzzer's counters of what was reached, where the processes that reach it count in the same memory.
void ShareCoverage() {
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(__start___sancov_cntrs) + kPage - 1) / kPage * kPage;
  const auto end = reinterpret_cast<uintptr_t>(__stop___sancov_cntrs) / kPage * kPage;
  if (begin >= end) return;
  void* counters =
      mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  FUZZ_CHECK(counters != MAP_FAILED);
}

}  // namespace

void Run(std::span<const std::byte> input) {
  [[maybe_unused]] static const bool shared = (ShareCoverage(), true);
  const pid_t pid = fork();
  FUZZ_CHECK(pid >= 0);
  if (pid == 0) RunInChild(input);
  const uint64_t give_up_ns = MonotonicNs() + kChildNs;
  int status = -1;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (MonotonicNs() >= give_up_ns) kill(pid, SIGABRT);
    usleep(200);
  }
  FUZZ_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Every export, answered with what its reply may hold.
std::vector<Input> Seeds() {
  std::map<std::string, const TestedMessage*> replies;
  static const std::vector<TestedMessage> messages = AllMessages();
  for (const TestedMessage& message : messages) replies[message.name] = &message;
  std::vector<Input> seeds;
  for (size_t i = 0; i < Calls().size(); ++i) {
    const std::string symbol = Calls()[i].symbol;
    // The forms for other default streams (_ptds, _ptsz) have no reply of their own name: one seed a call.
    const auto found = replies.find(symbol + "Reply");
    if (found == replies.end()) continue;
    ValueSource source(static_cast<uint32_t>(i));
    Encoder out;
    found->second->encode(source, out);
    Writer seed;
    seed.Put(static_cast<uint16_t>(i));
    for (int times = 0; times < 3; ++times) {
      seed.Put(uint8_t{0}).Put(static_cast<uint16_t>(out.size())).Bytes(out.bytes());
    }
    seeds.push_back(seed.input());
  }
  Writer notices;
  notices.Put(uint16_t{0});
  for (uint8_t kind = 0; kind < std::size(kKinds); ++kind) {
    notices.Put(uint8_t{1}).Put(kind).Put(uint8_t{1}).Put(uint64_t{1}).Put(uint8_t{8}).Put(uint64_t{1}).Put(uint16_t{0});
  }
  seeds.push_back(notices.input());
  return seeds;
}

}  // namespace tessera::fuzz
