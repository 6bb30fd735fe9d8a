// Life of a channel: rings, liveness, end.
#include "protocol/channel/channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "protocol/base/check.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr uint64_t kSendTimeoutNs = 10'000'000'000;
constexpr std::string_view kPeerGone = "the peer is gone";
constexpr uint64_t kStagingGranularity = 64u << 10;

// The rings in the order in which they lie in the rings segment.
struct Layout {
  uint64_t commands, replies, answers, transfers_to_server, transfers_to_client, total;
};

Layout LayoutOf(const ChannelSizes& sizes) {
  Layout layout{};
  uint64_t at = 0;
  const auto place = [&at](uint32_t ring_bytes) {
    const uint64_t begin = at;
    at += RingMemory::TotalBytes(ring_bytes);
    return begin;
  };
  layout.commands = place(sizes.command_bytes);
  layout.replies = place(sizes.reply_bytes);
  layout.answers = place(sizes.answer_bytes);
  layout.transfers_to_server = place(sizes.transfer_bytes);
  layout.transfers_to_client = place(sizes.transfer_bytes);
  layout.total = at;
  return layout;
}

uint32_t BoundedRing(uint32_t bytes, uint32_t bytes_max) { return std::min(RingMemory::RoundSize(bytes), bytes_max); }

}  // namespace

ChannelSizes BoundedSizes(const ChannelSizes& sizes) {
  ChannelSizes bounded;
  bounded.command_bytes = BoundedRing(sizes.command_bytes, kCommandBytesMax);
  bounded.reply_bytes = BoundedRing(sizes.reply_bytes, kReplyBytesMax);
  bounded.answer_bytes = BoundedRing(sizes.answer_bytes, kSmallRingBytesMax);
  bounded.transfer_bytes = BoundedRing(sizes.transfer_bytes, kSmallRingBytesMax);
  const uint64_t staging = std::clamp(sizes.staging_bytes, kStagingBytesMin, kStagingBytesMax);
  bounded.staging_bytes = (staging + kStagingGranularity - 1) / kStagingGranularity * kStagingGranularity;
  return bounded;
}

uint64_t Channel::RingsBytes(const ChannelSizes& sizes) { return LayoutOf(sizes).total; }

Channel::Channel(Side side, UniqueFd socket, const ChannelSizes& sizes, bool mirrored)
    : side_(side),
      socket_(std::move(socket)),
      sizes_(sizes),
      mirrored_(mirrored),
      stop_([this] { return Check(); }),
      // Odd ids are the server's, and the first two of them came with the welcome.
      next_segment_(side == Side::kServer ? kStagingSegment + 2 : 2) {
  if (side == Side::kServer) {
    // A child that the client forked without our knowledge may hold the socket open; the process itself cannot hide.
    Result<PeerCredentials> peer = PeerOf(socket_.get());
    if (peer.ok() && peer->pid > 0 && peer->pid != getpid()) {
      peer_process_.reset(static_cast<int>(syscall(SYS_pidfd_open, peer->pid, 0)));
    }
  }
}

void Channel::OpenRings(std::byte* base) {
  const Layout layout = LayoutOf(sizes_);
  const RingMemory commands = RingMemory::At(base + layout.commands, sizes_.command_bytes);
  const RingMemory replies = RingMemory::At(base + layout.replies, sizes_.reply_bytes);
  const RingMemory answers = RingMemory::At(base + layout.answers, sizes_.answer_bytes);
  const RingMemory to_server = RingMemory::At(base + layout.transfers_to_server, sizes_.transfer_bytes);
  const RingMemory to_client = RingMemory::At(base + layout.transfers_to_client, sizes_.transfer_bytes);
  ring_headers_ = {commands.header, replies.header, answers.header, to_server.header, to_client.header};
  if (side_ == Side::kClient) {
    commands_out_ = std::make_unique<RingProducer>(commands);
    answers_out_ = std::make_unique<RingProducer>(answers);
    replies_in_ = std::make_unique<RingConsumer>(replies);
    transfers_out_ = std::make_unique<RingProducer>(to_server);
    transfers_in_ = std::make_unique<RingConsumer>(to_client);
  } else {
    commands_in_ = std::make_unique<RingConsumer>(commands);
    answers_in_ = std::make_unique<RingConsumer>(answers);
    replies_out_ = std::make_unique<RingProducer>(replies);
    transfers_in_ = std::make_unique<RingConsumer>(to_server);
    transfers_out_ = std::make_unique<RingProducer>(to_client);
  }
}

Channel::~Channel() {
  if (abandoned_) return;
  if (End(Status(StatusCode::kUnavailable, "the channel was closed"))) LogDebug("channel closed without good-bye");
  if (ring_headers_[0] == nullptr) return;
  shutdown(socket_.get(), SHUT_RDWR);
  WakeWaiters();
}

RingProducer& Channel::commands_out() {
  CHECK(commands_out_ != nullptr);
  return *commands_out_;
}
RingProducer& Channel::answers_out() {
  CHECK(answers_out_ != nullptr);
  return *answers_out_;
}
RingConsumer& Channel::replies_in() {
  CHECK(replies_in_ != nullptr);
  return *replies_in_;
}
RingConsumer& Channel::commands_in() {
  CHECK(commands_in_ != nullptr);
  return *commands_in_;
}
RingConsumer& Channel::answers_in() {
  CHECK(answers_in_ != nullptr);
  return *answers_in_;
}
RingProducer& Channel::replies_out() {
  CHECK(replies_out_ != nullptr);
  return *replies_out_;
}

bool Channel::PeerGone(bool* message_waits) const {
  pollfd poll_fds[2] = {{socket_.get(), POLLRDHUP | POLLIN, 0}, {peer_process_.get(), POLLIN, 0}};  // poll skips a negative one
  if (poll(poll_fds, 2, 0) <= 0) return false;
  *message_waits = (poll_fds[0].revents & POLLIN) != 0;
  return (poll_fds[0].revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL)) != 0 || (poll_fds[1].revents & POLLIN) != 0;
}

Status Channel::Check() {
  if (ended_.load(std::memory_order_acquire)) return EndReason();
  bool message_waits = false;
  if (!PeerGone(&message_waits)) {
    if (!message_waits || message_handler_ || !socket_mutex_.try_lock()) return Status::Ok();
    const Status taken = TakeCloses();
    socket_mutex_.unlock();
    if (!taken.ok()) Fail(taken);
    return taken;
  }
  // Its last words may still be in the socket. When another thread reads there now, it will take them.
  if (socket_mutex_.try_lock()) {
    Status ignored = TakeMessages();
    socket_mutex_.unlock();
  } else if (!ended_.load(std::memory_order_acquire)) {
    return Status::Ok();  // asked again soon
  }
  End(Status(StatusCode::kUnavailable, std::string(kPeerGone)));
  return EndReason();
}

bool Channel::IsPeerGone(const Status& reason) {
  return reason.code() == StatusCode::kUnavailable && reason.message().ends_with(kPeerGone);
}

bool Channel::End(Status reason) {
  MutexLock lock(end_mutex_);
  if (ended_.load(std::memory_order_relaxed)) return false;
  end_reason_ = std::move(reason);
  ended_.store(true, std::memory_order_release);
  return true;
}

Status Channel::EndReason() {
  MutexLock lock(end_mutex_);
  return end_reason_;
}

void Channel::SendGoodbye(StatusCode code, const std::string& sentence) {
  Encoder encoder;
  Goodbye{code, sentence}.Encode(encoder);
  // Without waiting: a peer that does not read its socket learns from the hang-up that it is over.
  const Status sent = SendMessage(socket_.get(), encoder.bytes(), {}, 0);
  if (!sent.ok()) LogDebug("no good-bye could be sent: {}", sent.message());
  shutdown(socket_.get(), SHUT_RDWR);
  WakeWaiters();
}

void Channel::Fail(Status reason) {
  CHECK(!reason.ok());
  if (End(reason)) SendGoodbye(reason.code(), reason.message());
}

void Channel::Leave() {
  if (End(Status(StatusCode::kUnavailable, "this side left the channel"))) SendGoodbye(StatusCode::kOk, "");
}

void Channel::WakeWaiters() {
  for (RingHeader* header : ring_headers_) {
    if (header == nullptr) continue;
    FutexWakeAll(&header->head);
    FutexWakeAll(&header->tail);
  }
}

Status Channel::SendControl(std::span<const std::byte> message, std::span<const int> fds) {
  if (ended_.load(std::memory_order_acquire)) return EndReason();
  return SendMessage(socket_.get(), message, fds, MonotonicNs() + kSendTimeoutNs);
}

Status Channel::Publish(uint32_t segment, uint64_t offset, uint64_t length) {
  return Publish(segment, offset, length, side_ == Side::kClient ? TransferRing::kCommands : TransferRing::kReplies);
}

Status Channel::Publish(uint32_t segment, uint64_t offset, uint64_t length, TransferRing ring) {
  const RingProducer* target = ring == TransferRing::kCommands  ? commands_out_.get()
                               : ring == TransferRing::kReplies ? replies_out_.get()
                                                                : answers_out_.get();
  if (target == nullptr) return Status(StatusCode::kInvalidArgument, "a range was published for a ring of the other side");
  if (!mirrored_) return Status::Ok();
  if (segments_.Resolve(segment, offset, length).data() == nullptr) {
    return Status(StatusCode::kInvalidArgument, "a published range is not inside of segment " + std::to_string(segment));
  }
  if (length == 0) return Status::Ok();
  TransferRecord record{sizeof(TransferRecord), kTransferRecord, 0, segment, ring, offset, length, 0};
  for (;;) {
    {
      MutexLock lock(publish_mutex_);
      record.number = transfers_published_ + 1;
      record.ring_position = target->position();
      if (transfers_out_->TryAppend(std::as_bytes(std::span(&record, 1)))) {
        transfers_published_ = record.number;
        // Many ranges for one record: the link begins before the ring is full.
        Result<uint64_t> released = transfers_out_->Released();
        if (released.ok() && transfers_out_->position() - *released >= transfers_out_->size_bytes() / 2) SendPublished();
        return Status::Ok();
      }
    }
    SendPublished();
    RETURN_IF_ERROR(transfers_out_->WaitForSpace(sizeof(record), kNoDeadline, stop_));
  }
}

void Channel::SendPublished() {
  if (mirrored_) transfers_out_->CallReader();
}

void Channel::AbandonInChild() {
  abandoned_ = true;
  // close(2) directly: the child's copies go, the connection stays the parent's.
  if (socket_.valid()) close(socket_.release());
  if (peer_process_.valid()) close(peer_process_.release());
  rings_.Abandon();
  segments_.AbandonInChild();
}

}  // namespace tessera
