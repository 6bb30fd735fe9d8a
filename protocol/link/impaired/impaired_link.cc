#include "protocol/link/impaired/impaired_link.h"

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"
#include "protocol/link/impaired/delay_line.h"

namespace tessera {
namespace {

// How long after its time what was sent may take, when the link is given up, until the link behind is dropped.
constexpr uint64_t kDeliveryNs = 1'000'000'000;

Status Closed() { return Status(StatusCode::kUnavailable, "the link was closed"); }

// Rooms of large payloads, used again: fresh pages would cost more than the rates that a link is to be held to. Any thread.
class Rooms {
 public:
  DelayLine::Frame For(const FrameHeader& header) EXCLUDES(mutex_) {
    if (header.bytes >= kLargeBytes) {
      MutexLock lock(mutex_);
      if (!spare_.empty()) {
        DelayLine::Frame frame = {header, std::move(spare_.back())};
        spare_.pop_back();
        return frame;
      }
    }
    const uint64_t bytes = header.bytes >= kLargeBytes ? kFrameBytesMax : header.bytes;
    return {header, std::make_unique_for_overwrite<std::byte[]>(bytes)};
  }
  void Return(DelayLine::Frame frame) EXCLUDES(mutex_) {
    if (frame.header.bytes < kLargeBytes) return;
    MutexLock lock(mutex_);
    if (spare_.size() < kSpareMax) spare_.push_back(std::move(frame.payload));
  }

 private:
  static constexpr uint64_t kLargeBytes = uint64_t{64} << 10;
  static constexpr size_t kSpareMax = DelayLine::kBytesMax / kFrameBytesMax;

  Mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> spare_ GUARDED_BY(mutex_);
};

class ImpairedLink : public Link {
 public:
  // `owned` is `link`, or null.
  ImpairedLink(Link& link, std::unique_ptr<Link> owned, const Impairment& impairment)
      : owned_(std::move(owned)), link_(link), impairment_(impairment), out_(impairment) {
    if (owned_) in_.emplace(impairment);
    delivering_ = std::thread([this] { Deliver(); });
    if (in_) collecting_ = std::thread([this] { Collect(); });
  }
  ~ImpairedLink() override {
    Close();
    if (!Delivered(out_.last_due_ns() + kDeliveryNs)) Drop();
    delivering_.join();
    if (!in_) return;
    in_->Drop(Closed());
    collecting_.join();
  }

  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override {
    DelayLine::Frame frame = rooms_.For(header);
    if (!payload.empty()) std::memcpy(frame.payload.get(), payload.data(), payload.size());
    return out_.Push(std::move(frame));
  }
  Result<FrameHeader> Receive(const Place& place) override {
    if (!in_) return link_.Receive(place);
    Result<DelayLine::Frame> frame = in_->Pop();
    if (!frame.ok()) return frame.status();
    const FrameHeader header = frame->header;
    const Result<std::span<std::byte>> to = place(header);
    if (!to.ok()) return to.status();
    if (header.bytes != 0) std::memcpy(to.value().data(), frame->payload.get(), header.bytes);
    rooms_.Return(std::move(*frame));
    return header;
  }
  void Register(std::span<std::byte> memory) override { link_.Register(memory); }
  void Forget(std::span<std::byte> memory) override { link_.Forget(memory); }
  // What is on its way arrives first.
  void Close() override { out_.End(Closed()); }
  void Drop() override {
    out_.Drop(Closed());
    link_.Drop();
  }

 private:
  // Whether this frame is the one that does not arrive. Of the delivering thread.
  bool Cut(const FrameHeader& header) {
    sent_frames_ += 1;
    sent_bytes_ += sizeof(FrameHeader) + header.bytes;
    return (impairment_.cut_after_frames != 0 && sent_frames_ > impairment_.cut_after_frames) ||
           (impairment_.cut_after_bytes != 0 && sent_bytes_ > impairment_.cut_after_bytes);
  }

  void Deliver() {
    for (;;) {
      Result<DelayLine::Frame> frame = out_.Pop();
      if (!frame.ok()) break;
      const FrameHeader& header = frame->header;
      const Status sent = Cut(header) ? Status(StatusCode::kUnavailable, "the link was cut")
                                      : link_.Send(header, {frame->payload.get(), header.bytes});
      if (!sent.ok()) out_.Drop(sent);
      rooms_.Return(std::move(*frame));
    }
    link_.Close();
    MutexLock lock(mutex_);
    delivered_ = true;
    changed_.notify_all();
  }

  void Collect() {
    for (;;) {
      DelayLine::Frame frame;
      const Result<FrameHeader> header = link_.Receive([&](const FrameHeader& coming) -> Result<std::span<std::byte>> {
        if (coming.bytes > kFrameBytesMax)
          return Status(StatusCode::kProtocolViolation, "the link brought a frame that is too long");
        frame = rooms_.For(coming);
        return std::span(frame.payload.get(), coming.bytes);
      });
      if (!header.ok()) return in_->End(header.status());
      if (!in_->Push(std::move(frame)).ok()) return;
    }
  }

  bool Delivered(uint64_t deadline_ns) {
    MutexLock lock(mutex_);
    for (;;) {
      const uint64_t now_ns = MonotonicNs();
      if (delivered_ || now_ns >= deadline_ns) return delivered_;
      changed_.wait_for(mutex_, std::chrono::nanoseconds(deadline_ns - now_ns));
    }
  }

  const std::unique_ptr<Link> owned_;
  Link& link_;
  const Impairment impairment_;
  uint64_t sent_frames_ = 0;
  uint64_t sent_bytes_ = 0;
  Rooms rooms_;
  DelayLine out_;
  std::optional<DelayLine> in_;  // only of a link that is impaired both ways
  Mutex mutex_;
  ConditionVariable changed_;
  bool delivered_ GUARDED_BY(mutex_) = false;
  std::thread delivering_;
  std::thread collecting_;
};

}  // namespace

std::unique_ptr<Link> MakeImpairedLink(Link& link, const Impairment& impairment) {
  return std::make_unique<ImpairedLink>(link, nullptr, impairment);
}

std::unique_ptr<Link> MakeImpairedLink(std::unique_ptr<Link> link, const Impairment& impairment) {
  Link& behind = *link;
  return std::make_unique<ImpairedLink>(behind, std::move(link), impairment);
}

}  // namespace tessera
