#include "protocol/link/in_process_link.h"

#include <cstring>
#include <deque>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {
namespace {

// Frames on their way in one direction.
class Pipe {
 public:
  explicit Pipe(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  Status Put(const FrameHeader& header, std::span<const std::byte> payload) {
    Frame frame{header, {payload.begin(), payload.end()}};
    MutexLock lock(mutex_);
    while (!closed_ && !frames_.empty() && bytes_ + SizeOf(frame) > capacity_bytes_) changed_.wait(mutex_);
    if (closed_) return Closed();
    bytes_ += SizeOf(frame);
    frames_.push_back(std::move(frame));
    changed_.notify_all();
    return Status::Ok();
  }

  Result<FrameHeader> Take(const Link::Place& place) {
    Frame frame;
    {
      MutexLock lock(mutex_);
      while (!closed_ && frames_.empty()) changed_.wait(mutex_);
      if (frames_.empty()) return Closed();
      frame = std::move(frames_.front());
      frames_.pop_front();
      bytes_ -= SizeOf(frame);
      changed_.notify_all();
    }
    Result<std::span<std::byte>> to = place(frame.header);
    if (!to.ok()) return to.status();
    if (!frame.payload.empty()) std::memcpy(to->data(), frame.payload.data(), frame.payload.size());
    return frame.header;
  }

  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
  };
  static size_t SizeOf(const Frame& frame) { return sizeof(FrameHeader) + frame.payload.size(); }
  static Status Closed() { return Status(StatusCode::kUnavailable, "the link was closed"); }

  const size_t capacity_bytes_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Frame> frames_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

class InProcessLink : public Link {
 public:
  InProcessLink(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in) : out_(std::move(out)), in_(std::move(in)) {}
  ~InProcessLink() override { Close(); }

  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override { return out_->Put(header, payload); }
  Result<FrameHeader> Receive(const Place& place) override { return in_->Take(place); }
  void Close() override {
    out_->Close();
    in_->Close();
  }

 private:
  const std::shared_ptr<Pipe> out_;
  const std::shared_ptr<Pipe> in_;
};

}  // namespace

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeInProcessLink(size_t capacity_bytes) {
  const auto there = std::make_shared<Pipe>(capacity_bytes);
  const auto back = std::make_shared<Pipe>(capacity_bytes);
  return {std::make_unique<InProcessLink>(there, back), std::make_unique<InProcessLink>(back, there)};
}

}  // namespace tessera
