// How a relay goes on with a session whose process has ended in the middle of it, by what the rings and the page say
// (carriage.h).
//
// How far the process before had sent is not known, and need not be: at most what the peer has published by now. So the numbers
// begin with that. When the other host tells what it has, they are set back, as after any lost link (relay_resume.cc). What had
// arrived is known up to the last whole step; what came after that is sent again.
#include <utility>

#include "protocol/base/log.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/relay_parts.h"

namespace tessera {

Result<std::unique_ptr<Relay>> Relay::Adopt(KeeperLine& keeper, KeptSession kept, const Supply& supply) {
  Result<std::unique_ptr<Carriage>> carriage = Carriage::Adopt(keeper, kept.number, std::move(kept.page));
  if (!carriage.ok()) return carriage.status();
  if ((*carriage)->over()) return std::unique_ptr<Relay>();
  const CarriageTerms terms = (*carriage)->page().terms;
  Result<std::unique_ptr<Channel>> channel =
      Channel::Adopt({terms.side, terms.sizes, std::move(kept.socket), std::move(kept.peer_process), std::move(kept.files),
                      (*carriage)->TakenGoodbye()});
  if (!channel.ok()) return channel.status();
  Resumption resumption{supply(terms.token, terms.peer.data()), terms.token, terms.grace_ms * uint64_t{1'000'000}};
  std::unique_ptr<Relay> relay(new Relay(std::move(*channel), std::move(*carriage), nullptr, std::move(resumption)));
  if (const Status status = relay->TakeUp(kept); !status.ok()) {
    relay->channel_->Fail(status);
    return status;
  }
  return relay;
}

Status Relay::TakeUp(KeptSession& kept) {
  {
    MutexLock lock(send_mutex_);
    for (auto& source : sources_) {
      source->visible = source->ring.Published();
      source->sent.store(source->visible);
    }
  }
  for (auto& sink : sinks_) {
    Result<uint64_t> released = sink->ring.Released();
    if (!released.ok()) return released.status();
    sink->visible = sink->ring.position();
    sink->received.store(sink->visible);
    sink->acked.store(*released);
  }
  const TransferPlaces places{channel_->sizes().transfer_bytes};
  RingConsumer& transfers = channel_->transfers_in();
  {
    MutexLock lock(transfers_mutex_);
    transfers_acked_ = places.LastBefore(transfers.position());
    transfers_sent_.store(places.LastBefore(transfers.Published()));
    if (places.EndOf(transfers_acked_) != transfers.position())
      return RelayViolation("the peer broke the rules of the ring of transfers");
  }
  controls_sent_.store(carriage_->recorded());
  frames_received_.store(carriage_->page().heard.load());
  end_heard_.store(carriage_->page().end_heard.load() != 0);
  RETURN_IF_ERROR(TakeUpSegments(kept));
  // Before any thread starts: what was being taken off the socket must be known again before something refers to it.
  first_message_ = true;
  const Status alive = channel_->ProcessSocket();
  if (!alive.ok()) LogDebug("the peer of a session that goes on has left: {}", alive.message());
  first_message_ = false;
  return Status::Ok();
}

Status Relay::TakeUpSegments(KeptSession& kept) {
  MutexLock lock(segments_mutex_);
  RETURN_IF_ERROR(carriage_->ForEachSegment([&](uint32_t id, uint64_t size_bytes) REQUIRES(segments_mutex_) -> Status {
    const auto file = kept.segments.find(id);
    if (file == kept.segments.end()) {
      return Status(StatusCode::kResourceExhausted,
                    "the file of a segment of a session was not kept: raise the limit of open files");
    }
    RETURN_IF_ERROR(CheckSegmentFile(file->second.get(), size_bytes));
    Result<Mapping> mapping = Mapping::Map(file->second.get(), size_bytes, 0, MapPlacement::Anywhere());
    if (!mapping.ok()) return mapping.status();
    segments_.emplace(id, std::make_shared<const Mapping>(std::move(*mapping)));
    segment_bytes_ += size_bytes;
    if (id == carriage_->page().offer_arriving.load()) adopted_file_ = std::move(file->second);
    kept.segments.erase(file);
    return Status::Ok();
  }));
  for (const auto& [id, file] : kept.segments) carriage_->ForgetFile(id);
  return Status::Ok();
}

}  // namespace tessera
