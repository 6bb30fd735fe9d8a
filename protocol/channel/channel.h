// One session's connection between a client process and a server process of the same host: rings, segments and a socket in
// shared memory. Knows bytes, no calls. Between two machines a channel at each end is mirrored (protocol/link).
//
//   server                                          client
//   ReceiveHello(socket, hash, deadline)            Channel::Attach(socket, hello, deadline)
//   Channel::Create(socket, welcome)                channel->commands_out().TryAppend(...)
//   channel->commands_in().Wait(...)                channel->replies_in().Wait(...)
//
// Ring       from    to      read by commands   client  server  the worker's executor replies    server  client  whichever thread
// of the stub waits, else its service thread answers    client  server  a separate thread of the worker: never behind launches
// transfers  both ways       the link, on mirrored channels only
//
// Threads: for ring ends see ring.h; everything else any thread, unless a comment says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/ring.h"
#include "protocol/channel/segment.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/handshake.h"

namespace tessera {

// Ids of the segments that come with the welcome. The rings are never in a SegmentTable: no record may refer to them.
inline constexpr uint32_t kRingsSegment = 1;
inline constexpr uint32_t kStagingSegment = 3;

// Bounds on what a client may ask for; a ring's sizes are powers of two.
inline constexpr uint32_t kCommandBytesMax = 64u << 20;
inline constexpr uint32_t kReplyBytesMax = 16u << 20;
inline constexpr uint32_t kSmallRingBytesMax = 1u << 20;  // answers, transfers
inline constexpr uint64_t kStagingBytesMax = uint64_t{4} << 30;
inline constexpr uint64_t kStagingBytesMin = uint64_t{1} << 20;
// One segment of host memory: the largest pinned allocation.
inline constexpr uint64_t kSegmentBytesMax = uint64_t{1} << 40;

// `sizes` brought within the bounds; rings are rounded up to powers of two, staging to 64 KiB.
ChannelSizes BoundedSizes(const ChannelSizes& sizes);

// A record of a transfers ring: these bytes of a segment must arrive before `ring` shows bytes from `ring_position` on.
// TellElsewhere() on a transfers ring means that a segment was offered over the socket, before any record that refers to it.
enum class TransferRing : uint32_t { kCommands = 0, kReplies = 1, kAnswers = 2 };
struct TransferRecord {
  uint32_t size_bytes;
  uint32_t id;      // kTransferRecord
  uint64_t number;  // 1, 2, 3 ... per direction
  uint32_t segment;
  TransferRing ring;
  uint64_t offset;  // in the segment
  uint64_t length;
  uint64_t ring_position;
};
static_assert(sizeof(TransferRecord) == 48);
inline constexpr uint32_t kTransferRecord = 1;

// Server: receives the client's hello. kVersionMismatch: the hello is of another version, or of another spec than
// `own_spec_hash`; the client was refused with that sentence.
Result<ClientHello> ReceiveHello(int socket, uint64_t own_spec_hash, uint64_t deadline_ns);
// Server: ends the handshake with a refusal. A failure to send it is ignored.
void Refuse(int socket, const Status& why);

class Channel {
 public:
  enum class Side { kClient, kServer };
  // What the rings and staging lie in.
  struct Files {
    UniqueFd rings, staging;
  };
  // What is left of one end of a channel whose process has ended, when another process has kept its descriptors.
  struct Parts {
    Side side;
    ChannelSizes sizes;
    UniqueFd socket;
    UniqueFd peer_process;  // as peer_process(); may be invalid
    Files files;
    std::optional<Goodbye> goodbye;  // that had been taken from the socket
  };

  // Server side: makes rings and staging of BoundedSizes(welcome->sizes), fills in sizes and segments of `*welcome` and
  // sends it. `socket` is connected and the hello was received. On failure the client has been refused.
  // `files`: takes the memory files, for whoever keeps them for Adopt(); null: nobody does.
  static Result<std::unique_ptr<Channel>> Create(UniqueFd socket, ServerWelcome* welcome, uint64_t deadline_ns,
                                                 Files* files = nullptr);
  // Client side: sends `hello`, waits for the welcome, checks and maps what came with it. A refusal is returned as the
  // Status it carries. `*welcome` is filled in on success (it still has the snapshot).
  static Result<std::unique_ptr<Channel>> Attach(UniqueFd socket, const ClientHello& hello, ServerWelcome* welcome,
                                                 uint64_t deadline_ns, Files* files = nullptr);
  // Takes over one end of a mirrored channel whose process has ended, for the relay of a link alone. Only the memory of staging
  // is known, and nothing may be offered or published. A peer that was already told of an end is not told again.
  // kProtocolViolation when the rings do not look like rings.
  static Result<std::unique_ptr<Channel>> Adopt(Parts parts);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Side side() const { return side_; }
  bool mirrored() const { return mirrored_; }
  const ChannelSizes& sizes() const { return sizes_; }
  // For poll(2) only (POLLIN: call ProcessSocket; POLLHUP: the peer is gone).
  int socket() const { return socket_.get(); }
  // Server's side: a pidfd of the client, where the kernel gives one; else -1.
  int peer_process() const { return peer_process_.get(); }

  // The ends of the rings. Asking for an end of the other side is a programmer error.
  RingProducer& commands_out();  // client
  RingProducer& answers_out();   // client
  RingConsumer& replies_in();    // client
  RingConsumer& commands_in();   // server
  RingConsumer& answers_in();    // server
  RingProducer& replies_out();   // server
  // For links: the ranges that this end's peer published.
  RingConsumer& transfers_in() { return *transfers_in_; }

  // The staging segment (id kStagingSegment), at an address of this process' own. Who uses which part of it is decided by
  // the client's staging allocator.
  std::span<std::byte> staging() const { return staging_; }

  // Ok while the channel is alive. kUnavailable when the peer is gone, the reason after Fail(), the peer's own words after its
  // Goodbye. Asks the kernel, so do not call it for every record; waits call it every kWaitSliceNs through stop(). Without a
  // message handler it also takes the peer's closes from the socket: many in a row would fill it, and the peer would be stuck.
  // Offers stay for the record that names them.
  Status Check();
  // Whether `reason` says that the peer has ended without a Goodbye.
  static bool IsPeerGone(const Status& reason);
  // The predicate to give to every wait on this channel's rings.
  const StopPredicate& stop() const { return stop_; }
  // Ends the channel on our side. The first reason counts: all waits return it within kWaitSliceNs, sleeping ones at once. The
  // peer is sent a Goodbye, if possible.
  void Fail(Status reason);
  // Leaves in order: tells the peer kOk. Waits of this side end with kUnavailable.
  void Leave();
  // True once the peer left with Goodbye(kOk): the end of the session is no error.
  bool peer_left() const { return peer_left_.load(std::memory_order_acquire); }
  // Wakes every thread, of both sides, that sleeps on a ring of this channel, so that it calls its stop().
  void WakeWaiters();

  // --- segments --- Sets the address range in which the peer may ask for segments at a fixed address. The caller has reserved it
  // (ReserveAddressRange). Without a range such offers are refused. Call it before the first ProcessSocket().
  void SetHostWindow(uint64_t address, uint64_t bytes);
  // Makes a segment, maps it here and offers it to the peer, to be mapped at the same address when `placement` has one.
  // Returns its id; its memory is Find(id). A record that refers to it may be appended right after this returned.
  Result<uint32_t> OfferSegment(SegmentKind kind, uint64_t size_bytes, const MapPlacement& placement);
  // Offers memory that this process has already mapped from `fd` (a shared file mapping of the application's). The
  // descriptor stays the caller's; `bytes` stays mapped until CloseSegment.
  Result<uint32_t> OfferMapped(int fd, uint64_t file_offset, std::span<std::byte> bytes);
  // Maps a part of `fd`, a shared file of the application's, here at `placement` and offers it to the peer at the same
  // address. The descriptor stays the caller's.
  Result<uint32_t> OfferFile(int fd, uint64_t file_offset, uint64_t bytes, const MapPlacement& placement);
  // Unmaps the segment here (borrowed memory: forgets it) and tells the peer. kNotFound for an unknown id.
  Status CloseSegment(uint32_t id);
  // Bounds-checked memory of a segment; takes pending offers from the socket when the id is not known yet. Empty with a
  // null data() when the segment does not exist or the range leaves it.
  std::span<std::byte> Resolve(uint32_t segment, uint64_t offset, uint64_t length);
  SegmentTable& segments() { return segments_; }
  // Takes every message that waits on the socket: maps offers, notes closes and good-byes. Does not block. The result is
  // that of Check().
  Status ProcessSocket();
  // The thread in ProcessSocket() calls the handler for each message instead of handling it here: for links and mirrors, which
  // pass messages on. A Goodbye is handled here as well. A failure of the handler ends the channel. A message leaves the socket
  // only when the handler has returned, so a process that takes over (Adopt) finds it if the handler's process ends. Set it
  // before the first ProcessSocket().
  using MessageHandler = std::function<Status(SocketMessage message)>;
  void SetMessageHandler(MessageHandler handler) { message_handler_ = std::move(handler); }
  // Called before a segment of the peer's is mapped, with the bytes of all such segments, and again when they become fewer. If
  // the answer is not Ok the segment is not mapped, and the call that names it finds none. One call at a time. It must not use
  // the channel.
  using SegmentRoom = std::function<Status(uint64_t bytes)>;
  // Null: every segment is mapped. When this returns the function set before is not called any more.
  void SetSegmentRoom(SegmentRoom room) EXCLUDES(room_mutex_) {
    MutexLock lock(room_mutex_);
    segment_room_ = std::move(room);
  }
  // Why a segment that the peer offered and has not closed was refused; Ok for any other.
  Status WhyRefused(uint32_t segment) EXCLUDES(refused_mutex_);
  // Sends a control message (with descriptors) of our own over the socket.
  Status SendControl(std::span<const std::byte> message, std::span<const int> fds);

  // Says that bytes of a segment were written to which the next records on `ring` (of our side) refer. Call it after writing them
  // and BEFORE appending the record. Does nothing on a channel that shares memory. May wait for space in the transfers ring.
  // kInvalidArgument for a range outside the segment.
  Status Publish(uint32_t segment, uint64_t offset, uint64_t length, TransferRing ring);
  // As above for the side's main ring: commands from the client, replies from the server.
  Status Publish(uint32_t segment, uint64_t offset, uint64_t length);
  // Sends what was published now, instead of with the next record. For a caller that appends that record only later. A system
  // call on a mirrored channel.
  void SendPublished();

  // In a child after fork(), whose parent goes on using the channel: closes our descriptors, touches no ring and no
  // segment (they do not exist in the child), takes no lock, allocates nothing. Afterwards only the destructor is legal.
  void AbandonInChild();

 private:
  Channel(Side side, UniqueFd socket, const ChannelSizes& sizes, bool mirrored);
  // Bytes of the rings segment for these (bounded) sizes.
  static uint64_t RingsBytes(const ChannelSizes& sizes);
  // Server: makes the segments of the welcome and sends it.
  Status Welcome(ServerWelcome* welcome, uint64_t deadline_ns, Files* files);
  // Maps the two segments of the welcome and makes the ring ends.
  Status MapWelcome(int rings_fd, int staging_fd);
  void OpenRings(std::byte* base);
  Status TakeMessages() REQUIRES(socket_mutex_);
  // Takes the closes at the head of the socket.
  Status TakeCloses() REQUIRES(socket_mutex_);
  Status TakeMessage(SocketMessage message) REQUIRES(socket_mutex_);
  Status TakeOffer(const SegmentOffer& offer, const SocketMessage& message);
  Status TakeGoodbye(const Goodbye& goodbye);
  // Our side's view of why the channel ended; the first reason counts. False when it had ended before.
  bool End(Status reason) EXCLUDES(end_mutex_);
  Status EndReason() EXCLUDES(end_mutex_);
  // Tells the peer, and wakes everybody on both sides.
  void SendGoodbye(StatusCode code, const std::string& sentence);
  // Whether the peer is gone, and whether a message waits.
  bool PeerGone(bool* message_waits) const;
  Result<uint32_t> Offer(const SegmentOffer& offer, int fd);

  const Side side_;
  UniqueFd socket_;
  UniqueFd peer_process_;  // pidfd of a client, where the kernel gives one
  const ChannelSizes sizes_;
  const bool mirrored_;
  StopPredicate stop_;

  Mapping rings_;
  std::array<RingHeader*, 5> ring_headers_{};
  std::span<std::byte> staging_;
  SegmentTable segments_;
  std::unique_ptr<RingProducer> commands_out_, answers_out_, replies_out_, transfers_out_;
  std::unique_ptr<RingConsumer> commands_in_, answers_in_, replies_in_, transfers_in_;

  Mutex publish_mutex_;
  uint64_t transfers_published_ GUARDED_BY(publish_mutex_) = 0;

  Mutex socket_mutex_;  // receiving; sending needs none, a datagram is atomic
  void RefuseOffer(const SegmentOffer& offer, const Status& why) EXCLUDES(refused_mutex_);
  // A segment of the peer's, of `bytes`, was unmapped.
  void PeerSegmentWent(uint32_t id, uint64_t bytes) EXCLUDES(room_mutex_);
  Status RoomForSegments(uint64_t bytes) EXCLUDES(room_mutex_);

  MessageHandler message_handler_;
  Mutex room_mutex_;
  SegmentRoom segment_room_ GUARDED_BY(room_mutex_);
  Mutex refused_mutex_;
  std::map<uint32_t, Status> refused_ GUARDED_BY(refused_mutex_);  // at most SegmentTable::kSegmentsMax
  std::atomic<uint64_t> peer_bytes_{0};                            // of the segments that the peer has offered
  uint64_t window_address_ = 0;
  uint64_t window_bytes_ = 0;
  std::atomic<uint32_t> next_segment_;

  std::atomic<bool> ended_{false};
  std::atomic<bool> peer_left_{false};
  bool abandoned_ = false;
  Mutex end_mutex_;
  Status end_reason_ GUARDED_BY(end_mutex_);
};

}  // namespace tessera
