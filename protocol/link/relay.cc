// Life of a relay, its threads, and the segments it knows. How it begins is in relay_handshake.cc, what it sends in
// relay_send.cc, what it receives in relay_receive.cc.
#include "protocol/link/relay.h"

#include <poll.h>

#include <utility>

#include "protocol/link/relay_parts.h"

namespace tessera {
namespace {

constexpr int kWatchSliceMs = 50;

}  // namespace

Relay::Relay(std::unique_ptr<Channel> channel, Link& link) : channel_(std::move(channel)), link_(link) {
  const auto source = [this](TransferRing id, RingConsumer& ring) { sources_.push_back(std::make_unique<Source>(id, ring)); };
  const auto sink = [this](TransferRing id, RingProducer& ring) { sinks_.push_back(std::make_unique<Sink>(id, ring)); };
  if (channel_->side() == Channel::Side::kServer) {
    source(TransferRing::kCommands, channel_->commands_in());
    source(TransferRing::kAnswers, channel_->answers_in());
    sink(TransferRing::kReplies, channel_->replies_out());
  } else {
    source(TransferRing::kReplies, channel_->replies_in());
    sink(TransferRing::kCommands, channel_->commands_out());
    sink(TransferRing::kAnswers, channel_->answers_out());
  }
  link_.Register(channel_->staging());
  channel_->SetMessageHandler([this](SocketMessage message) { return TakeMessage(std::move(message)); });
}

Relay::~Relay() {
  link_.Close();
  link_.Forget(channel_->staging());
  MutexLock lock(segments_mutex_);
  for (const auto& [id, memory] : segments_) link_.Forget(memory->bytes());
}

Status Relay::Run() {
  std::vector<std::thread> threads;
  sending_.store(static_cast<int>(sources_.size()));
  for (auto& source : sources_) threads.emplace_back([this, &source] { SendRing(*source); });
  for (auto& sink : sinks_) threads.emplace_back([this, &sink] { SendAcks(*sink); });
  threads.emplace_back([this] { SendRanges(); });
  std::thread receiving([this] { ReceiveFrames(); });
  WatchSocket();
  for (auto& sink : sinks_) {
    MutexLock lock(sink->mutex);
    sink->ending = true;
    sink->changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  link_.Close();
  receiving.join();
  return channel_->peer_left() ? Status::Ok() : channel_->Check();
}

void Relay::Stop() {
  channel_->Fail(Status(StatusCode::kUnavailable, "the link was stopped"));
}

void Relay::WatchSocket() {
  while (sending_.load() != 0) {
    pollfd ready = {channel_->socket(), POLLIN, 0};
    poll(&ready, 1, kWatchSliceMs);
    const bool alive = channel_->ProcessSocket().ok();
    {
      MutexLock lock(send_mutex_);
      const Status sent = SendControls();
      if (!sent.ok()) channel_->Fail(sent);
    }
    // A hung-up socket is always readable: no poll of it can wait any more.
    if (!alive) poll(nullptr, 0, 1);
  }
}

Status Relay::AddSegment(const SegmentOffer& offer, int fd) {
  Result<Mapping> mapping = Mapping::Map(fd, offer.size_bytes, 0, Placement::Anywhere());
  if (!mapping.ok()) return mapping.status();
  const auto memory = std::make_shared<const Mapping>(std::move(*mapping));
  MutexLock lock(segments_mutex_);
  if (segments_.size() >= SegmentTable::kSegmentsMax) {
    return Status(StatusCode::kResourceExhausted, "too many segments of host memory at once");
  }
  const bool added = segments_.emplace(offer.id, memory).second;
  if (added) link_.Register(memory->bytes());
  return added ? Status::Ok() : RelayViolation("the peer offered segment " + std::to_string(offer.id) + " twice");
}

void Relay::CloseOnce(uint32_t id) {
  MutexLock lock(segments_mutex_);
  if (closed_once_.insert(id).second) return;
  closed_once_.erase(id);
  closed_twice_.insert(id);
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  link_.Forget(found->second->bytes());
  segments_.erase(found);
}

bool Relay::IsClosed(uint32_t id) {
  MutexLock lock(segments_mutex_);
  return closed_twice_.contains(id);
}

std::span<std::byte> Relay::FindRange(uint32_t segment, uint64_t offset, uint64_t bytes, Memory* memory) {
  if (segment == kStagingSegment) return channel_->segments().Resolve(segment, offset, bytes);
  MutexLock lock(segments_mutex_);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return {};
  *memory = found->second;
  const std::span<std::byte> all = (*memory)->bytes();
  return offset <= all.size() && bytes <= all.size() - offset ? all.subspan(offset, bytes) : std::span<std::byte>();
}

Relay::Source* Relay::FindSource(uint32_t id) {
  for (auto& source : sources_) {
    if (static_cast<uint32_t>(source->id) == id) return source.get();
  }
  return nullptr;
}

Relay::Sink* Relay::FindSink(uint32_t id) {
  for (auto& sink : sinks_) {
    if (static_cast<uint32_t>(sink->id) == id) return sink.get();
  }
  return nullptr;
}

}  // namespace tessera
