// What a relay sends besides what its peer says: messages that no record follows, what has arrived, and what has to be told again
// over a new link.
#include <chrono>

#include "protocol/base/log.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/relay_parts.h"

namespace tessera {
namespace {

// How many messages of the socket are kept until they are acknowledged. At this bound no more are taken from the socket. What one
// look at the socket brings at once (its buffer) comes on top.
constexpr size_t kControlsKeptMax = 1024;
// How often something is said on an idle link, if the session can go on without it.
constexpr auto kProbeEvery = std::chrono::seconds(2);

}  // namespace

void Relay::Errand() {
  MutexLock lock(errands_mutex_);
  errand_ = true;
  errands_changed_.notify_all();
}

// Sends what other threads have found to be sent. Those threads have to go on, and never wait for the link.
void Relay::RunErrands() {
  for (bool first = true;; first = false) {
    bool probe = first && resumption_.supply != nullptr;  // so each end hears of the other at once
    {
      MutexLock lock(errands_mutex_);
      while (!errand_ && !errands_over_ && !probe) {
        if (resumption_.supply == nullptr) {
          errands_changed_.wait(errands_mutex_);
        } else {
          probe = errands_changed_.wait_for(errands_mutex_, kProbeEvery) == std::cv_status::timeout;
        }
      }
      if (errands_over_) return;
      errand_ = false;
    }
    MutexLock lock(send_mutex_);
    if (link_ == nullptr) continue;  // the next link brings an errand of its own
    Status status = Resend();
    if (status.ok()) status = SendControls();
    if (status.ok()) status = SendReceipts();
    if (status.ok() && probe) status = Transmit({FrameKind::kProbe, 0, 0, 0, 0}, {});
    if (!Flush().ok()) continue;  // the link is lost: as above
    if (!status.ok() && link_ != nullptr) channel_->Fail(status);
  }
}

Status Relay::Resend() {
  if (!resend_) return Status::Ok();
  resend_ = false;  // the next new link sets it again
  for (auto& source : sources_) {
    const Status sent = SendBatch(*source);
    if (link_ == nullptr) return sent;
    // The ring's own thread reports what the peer has broken.
    if (!sent.ok()) LogDebug("not sent again: {}", sent.message());
  }
  return end_.empty() ? Status::Ok() : SendEnd();
}

Status Relay::SendReceipts() {
  const uint64_t transfers = transfers_received_.load();
  if (transfers - transfers_told_.load() >= TransferPlaces{channel_->sizes().transfer_bytes}.AckStep()) {
    transfers_told_.store(transfers);
    RETURN_IF_ERROR(Transmit({FrameKind::kAck, kAckOfTransfers, 0, transfers, 0}, {}));
  }
  const uint64_t controls = controls_received_.load();
  if (controls - controls_told_.load() >= kControlsAckStep) {
    controls_told_.store(controls);
    RETURN_IF_ERROR(Transmit({FrameKind::kAck, kAckOfControls, 0, controls, 0}, {}));
  }
  return Status::Ok();
}

Status Relay::TakeFromSocket() {
  {
    MutexLock lock(controls_mutex_);
    if (carriage_->kept() >= kControlsKeptMax) return channel_->Check();
  }
  return channel_->ProcessSocket();
}

bool Relay::HasControls() {
  MutexLock lock(controls_mutex_);
  return carriage_->recorded() > controls_sent_.load(std::memory_order_relaxed);
}

Status Relay::AwaitRoomForControls() {
  for (;;) {
    {
      MutexLock lock(controls_mutex_);
      if (carriage_->kept() < kControlsKeptMax) return Status::Ok();
    }
    RETURN_IF_ERROR(SendControls());
    RETURN_IF_ERROR(Flush());
    // The receiving thread acknowledges them, and takes no lock of ours for it. So this has to look again by itself.
    link_changed_.wait_for(send_mutex_, std::chrono::milliseconds(1));
    if (link_ == nullptr) return Status(StatusCode::kUnavailable, "the link is lost");
  }
}

}  // namespace tessera
