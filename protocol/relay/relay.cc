// Life of a relay, its threads, and the segments it knows. Other files have the rest: how it begins (relay_handshake.cc), what it
// sends (relay_send.cc, relay_errands.cc), what it receives (relay_receive.cc), and what happens when its link is lost
// (relay_resume.cc).
#include "protocol/relay/relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "protocol/relay/relay_parts.h"

namespace tessera {
namespace {

constexpr int kWatchSliceMs = 50;

}  // namespace

Relay::Relay(std::unique_ptr<Channel> channel, std::unique_ptr<Carriage> carriage, std::shared_ptr<Link> link,
             Resumption resumption)
    : carriage_(std::move(carriage)),
      channel_(std::move(channel)),
      resumption_(std::move(resumption)),
      link_(link),
      transfers_received_(carriage_->page().transfers_received),
      controls_received_(carriage_->page().controls_received),
      current_(std::move(link)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      outage_began_ns_(carriage_->page().outage_began_ns) {
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
  RegisterMemory(link_);
  channel_->SetMessageHandler([this](SocketMessage message) { return TakeMessage(std::move(message)); });
}

Relay::~Relay() {
  CloseLink(false);
  RegisterMemory(nullptr);
  if (budget_ != nullptr) budget_->GiveBack(segment_bytes_);
}

void Relay::RegisterMemory(std::shared_ptr<Link> link) {
  MutexLock lock(segments_mutex_);
  std::vector<std::span<std::byte>> all = {channel_->staging()};
  for (const auto& [id, memory] : segments_) all.push_back(memory->bytes());
  if (registered_ != nullptr) {
    for (const std::span<std::byte> memory : all) registered_->Forget(memory);
  }
  registered_ = std::move(link);
  if (registered_ == nullptr) return;
  for (const std::span<std::byte> memory : all) registered_->Register(memory);
}

Status Relay::Run() {
  std::vector<std::thread> threads;
  sending_.store(static_cast<int>(sources_.size()));
  for (auto& source : sources_) threads.emplace_back([this, &source] { SendRing(*source); });
  for (auto& sink : sinks_) threads.emplace_back([this, &sink] { SendAcks(*sink); });
  threads.emplace_back([this] { SendRanges(); });
  threads.emplace_back([this] { RunErrands(); });
  std::thread receiving([this] { ReceiveFrames(); });
  WatchSocket();
  for (auto& sink : sinks_) {
    MutexLock lock(sink->mutex);
    sink->ending = true;
    sink->changed.notify_all();
  }
  {
    MutexLock lock(errands_mutex_);
    errands_over_ = true;
    errands_changed_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  CloseLink(false);
  if (resumption_.supply != nullptr) resumption_.supply->Stop();
  receiving.join();
  return channel_->peer_left() ? Status::Ok() : channel_->Check();
}

void Relay::Stop() { channel_->Fail(Status(StatusCode::kUnavailable, "the link was stopped")); }

void Relay::Abort() {
  Stop();
  {
    MutexLock lock(link_mutex_);
    aborted_ = true;
  }
  CloseLink(false);
  if (resumption_.supply != nullptr) resumption_.supply->Stop();
}

void Relay::UseLink(std::shared_ptr<Link> link) {
  MutexLock lock(link_mutex_);
  current_ = std::move(link);
  if (aborted_) current_->Close();
}

void Relay::CloseLink(bool drop) {
  MutexLock lock(link_mutex_);
  if (current_ == nullptr) return;
  if (drop) {
    current_->Drop();
  } else {
    current_->Close();
  }
}

// The end of a session that can go on must arrive. Both ends say it, and the first to say it waits for the other's. Neither waits
// until the second has arrived: an end that misses it comes back, and finds no session.
bool Relay::Finished() const {
  if (end_said_ns_.load() == 0) return false;
  return resumption_.supply == nullptr || end_heard_.load() || given_up_.load();
}

void Relay::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void Relay::WatchSocket() {
  bool alive = true;
  while (!Finished()) {
    // A hung-up socket is always readable, so polling it would not wait any more. poll() skips negative descriptors.
    pollfd ready[] = {{alive ? channel_->socket() : -1, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    poll(ready, 2, kWatchSliceMs);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
    alive = TakeFromSocket().ok();
    if (HasControls()) Errand();
    CheckTimes();
  }
}

void Relay::BoundSegments(uint64_t bytes_max, SegmentBudget* budget) {
  MutexLock lock(segments_mutex_);
  segment_bytes_max_ = bytes_max;
  budget_ = budget;
  // Those that the process before this one had are there already.
  if (budget_ != nullptr) budget_->Have(segment_bytes_);
}

Status Relay::AddSegment(const SegmentOffer& offer, int fd, std::span<const std::byte> message) {
  {
    MutexLock lock(segments_mutex_);
    if (offer.size_bytes > segment_bytes_max_ - std::min(segment_bytes_, segment_bytes_max_)) {
      return Status(StatusCode::kResourceExhausted, "the session's segments have " + std::to_string(segment_bytes_) +
                                                        " bytes, and may have " + std::to_string(segment_bytes_max_) +
                                                        ": pin less host memory, or lower --max-sessions of tessera-gateway");
    }
  }
  if (budget_ != nullptr && !budget_->Take(offer.size_bytes)) {
    return Status(StatusCode::kResourceExhausted,
                  "the segments of all sessions would have more than " + std::to_string(budget_->bytes_max()) +
                      " bytes, what this host, or this control group, has for them: pin less host memory");
  }
  Status kept = KeepSegment(offer, fd, message);
  if (!kept.ok() && budget_ != nullptr) budget_->GiveBack(offer.size_bytes);
  return kept;
}

Status Relay::KeepSegment(const SegmentOffer& offer, int fd, std::span<const std::byte> message) {
  Result<Mapping> mapping = Mapping::Map(fd, offer.size_bytes, 0, MapPlacement::Anywhere());
  if (!mapping.ok()) return mapping.status();
  const auto memory = std::make_shared<const Mapping>(std::move(*mapping));
  RETURN_IF_ERROR(carriage_->KeepFile(offer.id, fd));
  MutexLock lock(segments_mutex_);
  if (segments_.contains(offer.id)) return RelayViolation("the peer offered segment " + std::to_string(offer.id) + " twice");
  RETURN_IF_ERROR(carriage_->AddSegment(offer.id, offer.size_bytes));
  // The offer comes first. A thread that finds the segment known must also find its offer, to send it ahead.
  if (!message.empty()) RETURN_IF_ERROR(Record(message));
  segments_.emplace(offer.id, memory);
  segment_bytes_ += offer.size_bytes;
  if (registered_ != nullptr) registered_->Register(memory->bytes());
  return Status::Ok();
}

void Relay::CloseSegment(uint32_t id, uint32_t side) {
  MutexLock lock(segments_mutex_);
  if (!carriage_->CloseSegment(id, side)) return;
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  if (registered_ != nullptr) registered_->Forget(found->second->bytes());
  segment_bytes_ -= found->second->size();
  if (budget_ != nullptr) budget_->GiveBack(found->second->size());
  segments_.erase(found);
}

Status Relay::Record(std::span<const std::byte> message) {
  MutexLock lock(controls_mutex_);
  return carriage_->Record(message);
}

bool Relay::IsKnown(uint32_t id) {
  MutexLock lock(segments_mutex_);
  return segments_.contains(id);
}

bool Relay::IsClosed(uint32_t id) {
  MutexLock lock(segments_mutex_);
  return carriage_->IsClosed(id);
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
