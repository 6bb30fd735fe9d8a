#include "client-stub/session/session.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "client-stub/process/call_info.h"
#include "client-stub/process/guest_thread.h"
#include "client-stub/process/statistics.h"
#include "client-stub/session/reply_reader.h"
#include "client-stub/session/thread_state.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

// How often the idle service thread looks whether the server is still there; noticing takes at most this long.
constexpr uint64_t kServiceSliceNs = 200'000'000;

CUresult ResultOf(const ReplySlot& slot) {
  return slot.result() == kAsideBehind ? Session::kBehind : static_cast<CUresult>(slot.result());
}

constexpr auto kAlways = [] { return true; };

// Text of the driver goes where the driver would write it. A reader that is gone (EPIPE) is the program's affair, as
// natively.
// What kernels print goes through the program's own stdio: behind what the program printed before and has not flushed. It is
// flushed, so that nothing is lost when the program ends without exit().
void PrintText(std::span<const std::byte> text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void WriteErrors(std::span<const std::byte> text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return;
    }
    text = text.subspan(static_cast<size_t>(written));
  }
}

}  // namespace

Session::Session(std::unique_ptr<Channel> channel, ServerWelcome welcome, Devices devices, std::string server)
    : channel_(std::move(channel)),
      welcome_(std::move(welcome)),
      devices_(std::move(devices)),
      server_(std::move(server)),
      handles_(HandleAllocator::Side::kClient, welcome_.session_index),
      contexts_(*this, handles_),
      commands_(channel_->commands_out()),
      reader_(std::make_unique<ReplyReader>(
          channel_->replies_in(), channel_->stop(),
          [this](const ReplyHeader& header, std::span<const std::byte> payload) { HandleNotice(header, payload); })) {
  service_thread_ = StartGuestThread("tessera-replies", [this] { Service(); });
}

Session::~Session() {
  stopping_.store(true, std::memory_order_release);
  gone_.store(true, std::memory_order_release);
  channel_->Leave();
  channel_->WakeWaiters();
  service_thread_.join();
}

std::string Session::Name() const { return server_.empty() ? "the server" : "the server " + server_; }

size_t Session::record_bytes_max() const { return commands_.record_bytes_max(); }

uint64_t Session::last_sequence() {
  ShortLock lock(append_mutex_);
  return next_sequence_ - 1;
}

template <bool kReplies, typename May>
CUresult Session::AppendRecord(std::span<std::byte> record, ReplySlot* slot, uint64_t* sequence,
                               std::span<LastSequence* const> changed, const May& may) {
  for (;;) {
    if (gone()) return GoneResult();
    {
      ShortLock lock(append_mutex_);
      if (!may()) return kNotAppended;
      if (std::byte* to = commands_.TryReserve(record.size())) {
        const uint64_t number = next_sequence_++;
        std::memcpy(record.data() + offsetof(RecordHeader, sequence), &number, sizeof(number));
        if (sequence != nullptr) *sequence = number;
        if constexpr (kReplies) {
          uint32_t flags = 0;
          std::memcpy(&flags, record.data() + offsetof(RecordHeader, flags), sizeof(flags));
          flags |= kWantsReply;
          std::memcpy(record.data() + offsetof(RecordHeader, flags), &flags, sizeof(flags));
          slot->Open(number);
          reader_->Register(slot);
        }
        std::memcpy(to, record.data(), record.size());
        // Before the server can run it: a host function may ask about its own stream before the call that launched it has
        // returned.
        for (LastSequence* last : changed) last->RaiseInOrder(number);
        // Who waits for an answer pays for the certainty that a server which goes to sleep now wakes up at once.
        if constexpr (kReplies) {
          commands_.Commit();
        } else {
          commands_.CommitLightly();
        }
        return CUDA_SUCCESS;
      }
    }
    if (record.size() > record_bytes_max()) return CUDA_ERROR_INVALID_VALUE;
    const Status space = commands_.WaitForSpace(record.size(), kNoDeadline, channel_->stop());
    if (!space.ok()) return Ended(space);
  }
}

CUresult Session::Append(std::span<std::byte> record, uint64_t* sequence, std::span<LastSequence* const> changed) {
  return AppendRecord<false>(record, nullptr, sequence, changed, kAlways);
}

CUresult Session::AppendIf(std::span<const SeenSequence> seen, std::span<std::byte> record, uint64_t* sequence,
                           std::span<LastSequence* const> changed) {
  return AppendRecord<false>(record, nullptr, sequence, changed, [seen] {
    return std::all_of(seen.begin(), seen.end(), [](const SeenSequence& one) { return one.unchanged(); });
  });
}

CUresult Session::Start(std::span<std::byte> record, ReplySlot* slot, std::span<LastSequence* const> changed) {
  return AppendRecord<true>(record, slot, nullptr, changed, kAlways);
}

CUresult Session::Await(ReplySlot* slot) {
  const Status status = reader_->WaitUntil([slot] { return slot->done(); }, slot);
  if (status.ok()) return ResultOf(*slot);
  reader_->Unregister(slot);
  if (slot->done()) return ResultOf(*slot);
  return Ended(status);
}

CUresult Session::Request(std::span<std::byte> record, ReplySlot* slot) {
  const CUresult started = Start(record, slot);
  return started != CUDA_SUCCESS ? started : Await(slot);
}

CUresult Session::SendAnswer(uint64_t request, CUresult result) {
  ReplyHeader answer{};
  answer.size_bytes = sizeof(answer);
  answer.kind = static_cast<uint32_t>(AnswerKind::kHostFunctionDone);
  answer.result = static_cast<int32_t>(result);
  answer.extra = request;
  return AppendAnswer(std::as_writable_bytes(std::span(&answer, 1)), [] {});
}

size_t Session::host_changes_bytes_max() const { return channel_->answers_out().record_bytes_max() - sizeof(ReplyHeader); }

CUresult Session::SendHostChanges(std::span<const std::byte> changes) {
  ReplyHeader header{};
  header.size_bytes = static_cast<uint32_t>(sizeof(header) + changes.size());
  header.kind = static_cast<uint32_t>(AnswerKind::kHostChanges);
  std::vector<std::byte> record(header.size_bytes);
  std::memcpy(record.data(), &header, sizeof(header));
  std::memcpy(record.data() + sizeof(header), changes.data(), changes.size());
  return AppendAnswer(std::as_writable_bytes(std::span(record)), [] {});
}

CUresult Session::RequestAside(std::span<const std::byte> record, uint64_t after, ReplySlot* slot) {
  std::vector<std::byte> bytes(sizeof(ReplyHeader) + record.size());
  ReplyHeader answer{};
  answer.size_bytes = static_cast<uint32_t>(bytes.size());
  answer.kind = static_cast<uint32_t>(AnswerKind::kAside);
  answer.extra = after;
  std::memcpy(bytes.data(), &answer, sizeof(answer));
  std::memcpy(bytes.data() + sizeof(answer), record.data(), record.size());
  const CUresult sent = AppendAnswer(bytes, [&]() REQUIRES(answer_mutex_) {
    RecordHeader header;
    std::memcpy(&header, record.data(), sizeof(header));
    header.size_bytes = static_cast<uint32_t>(record.size());
    header.flags |= kWantsReply;
    header.sequence = kAsideSequence | next_aside_++;
    std::memcpy(bytes.data() + sizeof(answer), &header, sizeof(header));
    slot->Open(header.sequence);
    reader_->Register(slot);
  });
  return sent != CUDA_SUCCESS ? sent : Await(slot);
}

template <typename Prepare>
CUresult Session::AppendAnswer(std::span<std::byte> record, Prepare prepare) {
  RingProducer& answers = channel_->answers_out();
  for (;;) {
    if (gone()) return GoneResult();
    {
      MutexLock lock(answer_mutex_);
      if (std::byte* to = answers.TryReserve(record.size())) {
        prepare();
        std::memcpy(to, record.data(), record.size());
        answers.Commit();
        return CUDA_SUCCESS;
      }
    }
    const Status space = answers.WaitForSpace(record.size(), kNoDeadline, channel_->stop());
    if (!space.ok()) return Ended(space);
  }
}

CUresult Session::WaitUntil(const std::function<bool()>& done) {
  if (done()) return CUDA_SUCCESS;
  ThreadState& thread = ThreadState::Current();
  const CallInfo* const call = thread.call;
  ++thread.waits;
  Statistics* const statistics = call != nullptr ? Statistics::OfProcess() : nullptr;
  if (statistics != nullptr) statistics->CountRoundTrip(*call, 0);
  const uint64_t begun_ns = statistics != nullptr ? MonotonicNs() : 0;
  const Status status = reader_->WaitUntil(done, nullptr);
  if (statistics != nullptr) statistics->CountWait(*call, MonotonicNs() - begun_ns);
  return status.ok() ? CUDA_SUCCESS : Ended(status);
}

CUresult Session::WaitForMark(uint64_t mark) {
  CUresult result = CUDA_SUCCESS;
  const CUresult waited = WaitUntil([&] { return marks_.Passed(mark, &result); });
  marks_.Close(mark);
  return waited != CUDA_SUCCESS ? waited : result;
}

void Session::Poll() { reader_->Poll(); }

uint64_t Session::records_read() const { return reader_->records_read(); }

void Session::OnNotice(NoticeKind kind, NoticeHandler handler) {
  MutexLock lock(handlers_mutex_);
  handlers_[static_cast<uint32_t>(kind)] = std::move(handler);
}

void Session::HandleNotice(const ReplyHeader& header, std::span<const std::byte> payload) {
  switch (static_cast<NoticeKind>(header.kind)) {
    case NoticeKind::kDeferredError:
      deferred_errors_.Add(header.thread, contexts_.Find(reinterpret_cast<CUcontext>(header.extra)),
                           static_cast<CUresult>(header.result));
      return;
    case NoticeKind::kDeviceOutput:
    case NoticeKind::kDeviceErrors: {
      // The record is padded: its true size comes along.
      const size_t size = header.extra != 0 && header.extra < payload.size() ? header.extra : payload.size();
      const bool errors = static_cast<NoticeKind>(header.kind) == NoticeKind::kDeviceErrors;
      errors ? WriteErrors(payload.first(size)) : PrintText(payload.first(size));
      return;
    }
    case NoticeKind::kCompletion:
      marks_.Pass(header.extra, static_cast<CUresult>(header.result));
      break;  // others may want to know as well
    default: break;
  }
  NoticeHandler* handler = nullptr;
  {
    MutexLock lock(handlers_mutex_);
    const auto found = handlers_.find(header.kind);
    if (found != handlers_.end()) handler = &found->second;  // stays where it is: handlers are never removed
  }
  if (handler != nullptr) {
    (*handler)(header, payload);
  } else if (header.kind != static_cast<uint32_t>(NoticeKind::kCompletion)) {
    ProtocolViolation("a notice of kind " + std::to_string(header.kind) + " that nothing here waits for");
  }
}

void Session::OnService(std::function<void()> look) {
  MutexLock lock(handlers_mutex_);
  service_looks_.push_back(std::move(look));
}

void Session::Service() {
  while (!stopping_.load(std::memory_order_acquire)) {
    {
      MutexLock lock(handlers_mutex_);
      for (const auto& look : service_looks_) look();
    }
    Status status = reader_->Serve(kServiceSliceNs);
    if (status.ok()) status = channel_->ProcessSocket();
    if (status.ok()) status = channel_->Check();
    if (status.ok()) continue;
    // What the server said before it left still counts.
    reader_->Poll();
    if (!stopping_.load(std::memory_order_acquire)) Abandon(status);
    return;
  }
}

CUresult Session::Ended(const Status& why) {
  Abandon(why);
  return GoneResult();
}

void Session::Abandon(const Status& why) {
  {
    // Whoever finds it gone may end the process at once: the user has been told by then.
    MutexLock abandoning(abandon_mutex_);
    if (gone()) return;
    const char* const what = server_.empty() ? "CUDA calls fail" : "CUDA calls on its devices fail";
    if (channel_->peer_left()) {
      LogError("{} has ended this session: {} from now on; start the program again", Name(), what);
    } else if (server_.empty()) {
      LogError("the connection to the CUDA server is lost ({}): {} from now on; start the program again", why.message(), what);
    } else {
      LogError("the connection to {} is lost ({}): {} from now on; start the program again", Name(), why.message(), what);
    }
    if (why.code() == StatusCode::kOverran) gone_result_.store(CUDA_ERROR_LAUNCH_TIMEOUT, std::memory_order_relaxed);
    gone_.store(true, std::memory_order_release);
  }
  channel_->Fail(why);
  channel_->WakeWaiters();
  std::vector<std::function<void()>> listeners;
  {
    MutexLock lock(handlers_mutex_);
    listeners.swap(gone_listeners_);
  }
  for (const auto& heard : listeners) heard();
}

void Session::OnGone(std::function<void()> heard) {
  {
    MutexLock lock(handlers_mutex_);
    if (!gone()) {
      gone_listeners_.push_back(std::move(heard));
      return;
    }
  }
  heard();
}

void Session::ProtocolViolation(std::string what) {
  Abandon(Status(StatusCode::kProtocolViolation, "the server sent " + std::move(what)));
}

CUresult Session::GoneResult() {
  if (left_at_exit_.load(std::memory_order_acquire) && exiting_thread_.load(std::memory_order_relaxed) != pthread_self()) {
    const uint64_t end_ns = MonotonicNs() + kExitNsMax;
    while (MonotonicNs() < end_ns) std::this_thread::sleep_for(std::chrono::nanoseconds(kExitNsMax));
  }
  return gone_result_.load(std::memory_order_relaxed);
}

void Session::LeaveAtExit() {
  exiting_thread_.store(pthread_self(), std::memory_order_relaxed);
  left_at_exit_.store(true, std::memory_order_release);
  gone_result_.store(CUDA_ERROR_DEINITIALIZED, std::memory_order_relaxed);
  if (gone_.exchange(true, std::memory_order_acq_rel)) return;
  stopping_.store(true, std::memory_order_release);
  channel_->Leave();
  channel_->WakeWaiters();
}

void Session::AbandonInChild() { channel_->AbandonInChild(); }

}  // namespace tessera
