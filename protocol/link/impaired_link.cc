#include "protocol/link/impaired_link.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"

namespace tessera {
namespace {

constexpr size_t kOnTheWayBytesMax = size_t{64} << 20;

class ImpairedLink : public Link {
 public:
  ImpairedLink(Link& link, const Impairment& impairment)
      : link_(link), impairment_(impairment), random_(impairment.seed), thread_([this] { Deliver(); }) {}
  ~ImpairedLink() override {
    Close();
    thread_.join();
  }

  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override {
    MutexLock lock(mutex_);
    while (status_.ok() && !closed_ && bytes_ > kOnTheWayBytesMax) changed_.wait(mutex_);
    if (!status_.ok()) return status_;
    if (closed_) return Status(StatusCode::kUnavailable, "the link was closed");
    due_ns_ = std::max(due_ns_ + TimeOnWire(payload.size()), DueNow());
    frames_.push_back({header, {payload.begin(), payload.end()}, due_ns_});
    bytes_ += payload.size();
    changed_.notify_all();
    return Status::Ok();
  }
  Result<FrameHeader> Receive(const Place& place) override { return link_.Receive(place); }
  void Register(std::span<std::byte> memory) override { link_.Register(memory); }
  void Forget(std::span<std::byte> memory) override { link_.Forget(memory); }
  // What is on its way arrives first.
  void Close() override {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
    uint64_t due_ns;
  };

  uint64_t TimeOnWire(uint64_t bytes) const {
    if (impairment_.bytes_per_second == 0) return 0;
    return (bytes + sizeof(FrameHeader)) * 1'000'000'000 / impairment_.bytes_per_second;
  }
  uint64_t DueNow() REQUIRES(mutex_) {
    uint64_t due_ns = MonotonicNs() + impairment_.delay_ns;
    if (impairment_.jitter_ns != 0) due_ns += random_() % (impairment_.jitter_ns + 1);
    if (impairment_.stall_ns != 0 && random_() % impairment_.stall_one_in == 0) due_ns += impairment_.stall_ns;
    return due_ns;
  }

  // Whether this frame is the one that does not arrive. Of the delivering thread.
  bool Cut(const Frame& frame) {
    sent_frames_ += 1;
    sent_bytes_ += sizeof(FrameHeader) + frame.payload.size();
    return (impairment_.cut_after_frames != 0 && sent_frames_ > impairment_.cut_after_frames) ||
           (impairment_.cut_after_bytes != 0 && sent_bytes_ > impairment_.cut_after_bytes);
  }

  void Deliver() {
    for (;;) {
      Frame frame;
      {
        MutexLock lock(mutex_);
        while (frames_.empty() && !closed_) changed_.wait(mutex_);
        if (frames_.empty()) break;
        const uint64_t now_ns = MonotonicNs();
        if (const uint64_t due_ns = frames_.front().due_ns; due_ns > now_ns) {
          changed_.wait_for(mutex_, std::chrono::nanoseconds(due_ns - now_ns));
          continue;
        }
        frame = std::move(frames_.front());
        frames_.pop_front();
        bytes_ -= frame.payload.size();
        changed_.notify_all();
      }
      const Status sent = Cut(frame) ? Status(StatusCode::kUnavailable, "the link was cut") : link_.Send(frame.header, frame.payload);
      if (sent.ok()) continue;
      MutexLock lock(mutex_);
      status_ = sent;
      changed_.notify_all();
      break;
    }
    link_.Close();
  }

  Link& link_;
  const Impairment impairment_;
  uint64_t sent_frames_ = 0;
  uint64_t sent_bytes_ = 0;
  Mutex mutex_;
  ConditionVariable changed_;
  std::minstd_rand random_ GUARDED_BY(mutex_);
  std::deque<Frame> frames_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t due_ns_ GUARDED_BY(mutex_) = 0;  // of the last frame
  bool closed_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Link> MakeImpairedLink(Link& link, const Impairment& impairment) {
  return std::make_unique<ImpairedLink>(link, impairment);
}

}  // namespace tessera
