#include "protocol/link/striped/striped_link.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/base/check.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

constexpr uint32_t kWholeShift = 8;
constexpr uint32_t kKindMask = (1u << kWholeShift) - 1;
static_assert(kFrameBytesMax < uint64_t{1} << (32 - kWholeShift));

// Parts begin at multiples of this.
constexpr uint64_t kPartStep = 4096;
static_assert(kStripedBytesMin >= kPartStep * kConnectionsMax, "every part has bytes");

uint32_t KindOf(const FrameHeader& header) { return static_cast<uint32_t>(header.kind) & kKindMask; }
uint64_t WholeOf(const FrameHeader& header) { return static_cast<uint32_t>(header.kind) >> kWholeShift; }

// Where part `index` of `count` lies in a frame of `whole` bytes.
struct Part {
  Part(uint64_t whole, size_t index, size_t count) {
    const uint64_t share = whole / count / kPartStep * kPartStep;
    begin = index * share;
    bytes = index + 1 == count ? whole - begin : share;
  }
  uint64_t begin;
  uint64_t bytes;
};

FrameHeader HeaderOf(const FrameHeader& whole, const Part& part) {
  FrameHeader header = whole;
  header.kind = static_cast<FrameKind>(static_cast<uint32_t>(whole.kind) | static_cast<uint32_t>(whole.bytes) << kWholeShift);
  header.bytes = part.bytes;
  header.position += part.begin;
  return header;
}

Status OutOfStep() {
  return Status(StatusCode::kProtocolViolation, "the connections of a link brought parts of different frames");
}

// A thread that does one thing at a time for another.
class Helper {
 public:
  Helper() : thread_([this] { Loop(); }) {}
  ~Helper() {
    Turn(State::kOver);
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void Begin(std::function<Status()> task) {
    task_ = std::move(task);
    Turn(State::kTask);
  }
  // Waits for what was begun.
  Status End() {
    Await(caller_spin_, [](State state) { return state == State::kDone; });
    Turn(State::kIdle);
    return std::exchange(result_, Status::Ok());
  }

 private:
  enum class State : uint32_t { kIdle, kTask, kDone, kOver };

  void Turn(State state) {
    state_.store(state, std::memory_order_release);
    state_.notify_all();
  }
  template <typename Wanted>
  State Await(AdaptiveSpin& spin, const Wanted& wanted) {
    State state = State::kIdle;
    const auto ready = [&] { return wanted(state = state_.load(std::memory_order_acquire)); };
    if (spin.Spin(ready)) return state;
    while (!ready()) state_.wait(state, std::memory_order_acquire);
    return state;
  }
  void Loop() {
    while (Await(helper_spin_, [](State state) { return state == State::kTask || state == State::kOver; }) == State::kTask) {
      result_ = task_();
      Turn(State::kDone);
    }
  }

  std::atomic<State> state_{State::kIdle};  // says whose the next two are
  std::function<Status()> task_;
  Status result_;
  AdaptiveSpin helper_spin_, caller_spin_;
  std::thread thread_;
};

class StripedLink : public Link {
 public:
  explicit StripedLink(std::vector<std::unique_ptr<Link>> links)
      : links_(std::move(links)), senders_(links_.size() - 1), receivers_(links_.size() - 1) {}
  ~StripedLink() override { Close(); }

  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override;
  Status SendSoon(const FrameHeader& header, std::span<const std::byte> payload) override {
    return payload.size() < kStripedBytesMin ? links_[0]->SendSoon(header, payload) : Send(header, payload);
  }
  Status Flush() override { return links_[0]->Flush(); }
  Result<FrameHeader> Receive(const Place& place) override;
  void Close() override {
    for (auto& link : links_) link->Close();
  }
  void Drop() override {
    for (auto& link : links_) link->Drop();
  }
  void Register(std::span<std::byte> memory) override {
    for (auto& link : links_) link->Register(memory);
  }
  void Forget(std::span<std::byte> memory) override {
    for (auto& link : links_) link->Forget(memory);
  }

 private:
  // The other links' parts of a frame whose place is known: begins to receive them.
  void BeginParts(const FrameHeader& whole, std::span<std::byte> to);
  // Ends what was begun with the helpers, after `first`, what became of the first link's part. The first failure.
  Status EndParts(std::deque<Helper>& helpers, Status first);
  // A part that is not there is none that the others can wait for.
  Status CloseUnless(Status status) {
    if (!status.ok()) Close();
    return status;
  }

  const std::vector<std::unique_ptr<Link>> links_;
  std::deque<Helper> senders_;  // of links 1, 2, ...
  std::deque<Helper> receivers_;
};

Status StripedLink::Send(const FrameHeader& header, std::span<const std::byte> payload) {
  if (payload.size() < kStripedBytesMin) return links_[0]->Send(header, payload);
  CHECK(header.bytes == payload.size() && payload.size() <= kFrameBytesMax &&
        KindOf(header) == static_cast<uint32_t>(header.kind));
  const auto send = [&](size_t i) {
    const Part part(payload.size(), i, links_.size());
    return CloseUnless(links_[i]->Send(HeaderOf(header, part), payload.subspan(part.begin, part.bytes)));
  };
  for (size_t i = 1; i < links_.size(); ++i) senders_[i - 1].Begin([&send, i] { return send(i); });
  return EndParts(senders_, send(0));
}

Result<FrameHeader> StripedLink::Receive(const Place& place) {
  bool parts = false;
  FrameHeader whole;
  Result<FrameHeader> first = links_[0]->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    whole = header;
    parts = WholeOf(header) != 0;
    if (!parts) return place(header);
    whole.kind = static_cast<FrameKind>(KindOf(header));
    whole.bytes = WholeOf(header);
    const Part part(whole.bytes, 0, links_.size());
    parts = false;
    if (whole.bytes < kStripedBytesMin || whole.bytes > kFrameBytesMax || header.bytes != part.bytes) return OutOfStep();
    Result<std::span<std::byte>> to = place(whole);
    if (!to.ok()) return to.status();
    CHECK(to->size() == whole.bytes);
    parts = true;
    BeginParts(whole, *to);
    return to->first(part.bytes);
  });
  if (!parts) return first;
  RETURN_IF_ERROR(EndParts(receivers_, CloseUnless(first.status())));
  return whole;
}

void StripedLink::BeginParts(const FrameHeader& whole, std::span<std::byte> to) {
  for (size_t i = 1; i < links_.size(); ++i) {
    receivers_[i - 1].Begin([this, whole, to, i] {
      const Part part(whole.bytes, i, links_.size());
      const FrameHeader expected = HeaderOf(whole, part);
      const Result<FrameHeader> got = links_[i]->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
        if (std::memcmp(&header, &expected, sizeof(header)) != 0) return OutOfStep();
        return to.subspan(part.begin, part.bytes);
      });
      return CloseUnless(got.status());
    });
  }
}

Status StripedLink::EndParts(std::deque<Helper>& helpers, Status first) {
  for (Helper& helper : helpers) {
    Status ended = helper.End();
    if (first.ok()) first = std::move(ended);
  }
  return first;
}

}  // namespace

Result<std::unique_ptr<Link>> MakeStripedLink(std::vector<std::unique_ptr<Link>> links) {
  CHECK(!links.empty() && links.size() <= kConnectionsMax);
  if (links.size() == 1) return std::move(links.front());
  try {
    return std::unique_ptr<Link>(std::make_unique<StripedLink>(std::move(links)));
  } catch (const std::system_error& error) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot start the threads of a link (") + error.what() + "): raise the limits (ulimit -u)");
  }
}

}  // namespace tessera
