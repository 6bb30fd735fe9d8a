// A lost link, and how a session goes on over the next one.
//
// Nothing is copied for this. The rings keep their bytes until the far reader has released them. The ring of transfers keeps the
// ranges until their bytes have arrived. Messages are kept until they are acknowledged. Each has a position or a number. When the
// link is lost:
// 1. It is closed. The receiving thread, which has left it, takes it away from the senders. After this nothing older is applied,
//    here or (by the same steps) on the far side.
// 2. Over the next link each end tells what it has received (ResumeState).
// 3. Each end sets its numbers back to what the other has, and sends on from there, in the usual order.
//
// Why a range may be read again from its segment, though its owner may have written there since: a transfer that is sent again
// had not arrived whole. The far side takes frames in order, so no ring bytes arrived that were sent after it. Those bytes hold
// the record that refers to it. So the far side has not looked at the range and has told nobody that it did, and the owner was
// not free to use the range for something else. What the owner writes there nevertheless would have been seen through shared
// memory as well. A transfer that had arrived may have been overwritten by now, for instance by the next user of staging. But the
// far side has received its number, and it is never sent again.
#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/relay_parts.h"

namespace tessera {
namespace {

// The log is silent about a shorter outage, and tells of a longer one once.
constexpr uint64_t kTellAfterNs = 2'000'000'000;
// A link is dead when nothing arrives for so long although the other end probes it, whatever the kernel says: a tunnel or a proxy
// may still hold our end. A silent host gets the same time.
constexpr uint64_t kSilenceNsMax = 8'000'000'000;

// While nothing has come from the other host, it may never have heard the welcome. Its program was then told that the session
// failed, and does not come back. A program that was welcomed says something at once.
constexpr uint64_t kUnheardGraceNsMax = 3'000'000'000;

// Receives the other end's first words on a link that we made.
Result<std::vector<std::byte>> ReceiveState(Link& link) {
  std::vector<std::byte> payload;
  Result<FrameHeader> header = link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    if ((header.kind != FrameKind::kResume && header.kind != FrameKind::kControl) || header.bytes > kControlMessageBytesMax) {
      return RelayViolation("the link did not go on where it was");
    }
    payload.resize(header.bytes);
    return std::span(payload);
  });
  if (!header.ok()) return header.status();
  if (header->kind == FrameKind::kResume) return payload;
  Result<ServerRefusal> refusal = ServerRefusal::Decode(payload);
  if (!refusal.ok()) return refusal.status();
  return Status(StatusCode::kNotFound, refusal->sentence);
}

}  // namespace

std::shared_ptr<Link> Relay::GoOn(const std::shared_ptr<Link>& lost) {
  if (lost != nullptr) lost->Drop();
  {
    MutexLock lock(send_mutex_);
    link_.reset();
  }
  RegisterMemory(nullptr);
  bool aborted = false;
  {
    MutexLock lock(link_mutex_);
    aborted = aborted_;
  }
  const std::string what = "the link to the other host is lost";
  if (resumption_.supply == nullptr || end_heard_.load() || aborted) return GiveUp(Status(StatusCode::kUnavailable, what));
  // If a process went on with the session, the grace time that the one before it had used up counts.
  const uint64_t began_ns = outage_began_ns_.load() != 0 ? std::min(outage_began_ns_.load(), MonotonicNs()) : MonotonicNs();
  const bool heard = frames_received_.load(std::memory_order_relaxed) != 0;
  const uint64_t grace_ns = heard ? resumption_.grace_ns : std::min(resumption_.grace_ns, kUnheardGraceNsMax);
  const uint64_t deadline_ns = began_ns + grace_ns;
  outage_began_ns_.store(began_ns);
  LogDebug("a session {} link", lost != nullptr ? "has lost its" : "goes on without a");
  for (;;) {
    Result<NextLink> next = resumption_.supply->Next(deadline_ns);
    if (!next.ok()) {
      std::string sentence = what + ", and it did not come back within ";
      sentence += std::to_string(grace_ns / 1'000'000'000) + " s";
      if (const std::string& why = next.status().message(); !why.empty()) sentence += " (" + why + ")";
      return GiveUp(Status(StatusCode::kUnavailable, std::move(sentence)));
    }
    UseLink(next->link);
    const bool we_came = next->said.empty();
    const Status agreed = Agree(*next);
    if (agreed.ok()) {
      LogInfo("a session goes on over a new link, after {} ms", (MonotonicNs() - began_ns) / 1'000'000);
      RegisterMemory(next->link);
      {
        MutexLock lock(send_mutex_);
        link_ = next->link;
        resend_ = true;
        link_changed_.notify_all();
      }
      outage_began_ns_.store(0);
      Errand();
      return next->link;
    }
    if (agreed.code() == StatusCode::kUnavailable) {
      next->link->Drop();
      continue;
    }
    if (!we_came) (void)RefuseOver(*next->link, agreed).ok();
    next->link->Close();
    // To the client a session that is gone is a server that is gone.
    return GiveUp(agreed.code() == StatusCode::kNotFound ? Status(StatusCode::kUnavailable, agreed.message()) : agreed);
  }
}

Status Relay::Agree(NextLink& next) {
  const std::vector<std::byte> ours = State().Encode();
  const auto tell = [&] { return next.link->Send({FrameKind::kResume, 0, ours.size(), 0, 0}, ours); };
  const bool we_came = next.said.empty();
  if (we_came) {
    RETURN_IF_ERROR(tell());
    Result<std::vector<std::byte>> answer = ReceiveState(*next.link);
    if (!answer.ok()) return answer.status();
    next.said = std::move(*answer);
  }
  Result<ResumeState> theirs = ResumeState::Decode(next.said);
  if (!theirs.ok()) return theirs.status();
  if (!theirs->token.Equals(resumption_.token)) return RelayViolation("the link came back with another session");
  {
    MutexLock lock(send_mutex_);
    RETURN_IF_ERROR(Rewind(*theirs));
  }
  // What was set back stays right if this link is lost: nothing is sent before both ends have told.
  return we_came ? Status::Ok() : tell();
}

ResumeState Relay::State() {
  ResumeState state;
  state.token = resumption_.token;
  state.controls = controls_received_.load();
  state.transfers = transfers_received_.load();
  controls_told_.store(state.controls);
  transfers_told_.store(state.transfers);
  for (const auto& sink : sinks_) {
    state.rings.push_back({static_cast<uint32_t>(sink->id), sink->received.load(), sink->visible, sink->acked.load()});
  }
  return state;
}

Status Relay::Rewind(const ResumeState& theirs) {
  if (theirs.rings.size() != sources_.size()) return RelayViolation("the link came back with other rings");
  for (auto& source : sources_) RETURN_IF_ERROR(RewindRing(*source, theirs));
  RETURN_IF_ERROR(TransfersAcked(theirs.transfers));
  transfers_sent_.store(theirs.transfers);
  RETURN_IF_ERROR(ControlsAcked(theirs.controls));
  controls_sent_.store(theirs.controls);
  end_sent_ = false;
  return Status::Ok();
}

Status Relay::RewindRing(Source& source, const ResumeState& theirs) {
  for (const ResumeState::Ring& ring : theirs.rings) {
    if (ring.id != static_cast<uint32_t>(source.id)) continue;
    MutexLock lock(source.mutex);
    // released <= visible <= received
    if (ring.released < source.ring.position() || ring.visible > source.visible || ring.received > source.sent.load()) {
      return RelayViolation("the link came back with ring bytes that were never sent");
    }
    source.sent.store(ring.received);
    source.visible = ring.visible;
    source.ring.ReleaseTo(ring.released);
    return Status::Ok();
  }
  return RelayViolation("the link came back without a ring");
}

std::shared_ptr<Link> Relay::GiveUp(Status why) {
  CloseLink(false);
  if (resumption_.supply != nullptr) resumption_.supply->Stop();
  {
    MutexLock lock(send_mutex_);
    link_.reset();
    over_ = why;
    link_changed_.notify_all();
  }
  channel_->Fail(std::move(why));
  outage_began_ns_.store(0);
  given_up_.store(true);
  Wake();
  return nullptr;
}

void Relay::CheckTimes() {
  if (resumption_.supply == nullptr) return;
  const uint64_t now_ns = MonotonicNs();
  const uint64_t frames = frames_received_.load(std::memory_order_relaxed);
  const uint64_t began_ns = outage_began_ns_.load();
  if (began_ns != 0 || frames != frames_seen_ || frames_seen_ns_ == 0) {
    frames_seen_ = frames;
    frames_seen_ns_ = now_ns;
  }
  if (began_ns != 0) {
    if (now_ns > began_ns + kTellAfterNs && outage_told_ns_ != began_ns) {
      outage_told_ns_ = began_ns;
      LogWarning("a session is without a link to the other host, and waits up to {} s for another",
                 resumption_.grace_ns / 1'000'000'000);
    }
    // The supply keeps the deadline. A link that has begun and says nothing does not.
    if (now_ns > began_ns + resumption_.grace_ns) CloseLink(true);
  } else if (probed_.load(std::memory_order_relaxed) && now_ns > frames_seen_ns_ + kSilenceNsMax) {
    LogInfo("the link of a session is silent: another is looked for");
    frames_seen_ns_ = now_ns;
    CloseLink(true);
  }
  const uint64_t said_ns = end_said_ns_.load();
  if (said_ns != 0 && now_ns > said_ns + resumption_.grace_ns) Abort();
}

}  // namespace tessera
