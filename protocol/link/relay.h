// One end of a mirrored channel: joins the channel of a client or a worker on this host to a link. Two relays and the link
// between them make two processes that share no pages see one channel. Knows no CUDA, and interprets no record.
//
//   at the client's host                                    at the server's host
//   auto relay = Relay::AtClient(socket, link, deadline)    auto relay = Relay::AtServer(socket, link, deadline)
//   Status why = relay->Run();                              Status why = relay->Run();
//
// Towards the client a relay is the server, towards the worker the client: it makes rings and segments of its own on the
// far side, and passes on the handshake (telling both ends that they are mirrored), segments, ring bytes and transfers.
//
// What holds for both ends of the channel:
// - A segment's offer arrives before the first record that could refer to it, a transfer before the ring bytes that its
//   sender published after it.
// - Bytes of a ring are given back to their producer only when the reader on the far side has released them. So they never
//   lack room where they go, a slow reader is felt by its writer, and the ring itself keeps what a lost link has to repeat.
// - What one side said before it left is delivered, then its end.
// What was gathered while a frame was being sent goes out with the next; there is no timer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/channel.h"
#include "protocol/link/link.h"

namespace tessera {

class Relay {
 public:
  // Receives the hello of the client at `socket`, has it answered over the link, and opens the client's channel. A refusal
  // is passed on to the client and returned; a question (server_query.h) is passed on as well as its answer, and is no session
  // either. `deadline_ns` counts for the socket; who gives up waiting for the link closes
  // it. `link` outlives the relay, which closes it in the end.
  static Result<std::unique_ptr<Relay>> AtClient(UniqueFd socket, Link& link, uint64_t deadline_ns);
  // Receives the hello over the link, takes it to the server at the socket that `dial` gives, and sends the answer back; also
  // when that is the refusal of a hello of another wire version, or the reason why `dial` has failed. `dial` is called once
  // something that looks like a hello or a question has arrived, not before.
  using Dial = std::function<Result<UniqueFd>()>;
  static Result<std::unique_ptr<Relay>> AtServer(const Dial& dial, Link& link, uint64_t deadline_ns);
  // As above with a connected socket.
  static Result<std::unique_ptr<Relay>> AtServer(UniqueFd socket, Link& link, uint64_t deadline_ns);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Carries the session until it is over on either side, on the calling thread and others that end before it returns.
  // Ok when the process at this end's socket left in order, else why it is over.
  Status Run();
  // Ends the session on both sides; Run() returns soon. Any thread.
  void Stop();

  // Where to count the bytes of segments that arrive; outlives the relay. Before Run().
  void CountReceived(std::atomic<uint64_t>* bytes) { received_bytes_ = bytes; }

 private:
  // A ring whose bytes we send: we are its consumer.
  struct Source {
    Source(TransferRing id, RingConsumer& ring) : id(id), ring(ring) {}
    const TransferRing id;
    RingConsumer& ring;
    Mutex mutex;        // for Published and ReleaseTo, which two threads call
    std::atomic<uint64_t> sent{0};  // written under send_mutex_
  };
  // A ring whose bytes we receive: we are its producer.
  struct Sink {
    Sink(TransferRing id, RingProducer& ring) : id(id), ring(ring) {}
    const TransferRing id;
    RingProducer& ring;
    std::atomic<uint64_t> received{0};  // bytes written by the receiving thread; the reader may see those up to `visible`
    uint64_t visible = 0;
    // Bytes that are worth a frame which tells that they were read: with less the far writer cannot lack room, since a record
    // is at most a quarter of a ring.
    uint64_t AckStep() const { return ring.size_bytes() / 8; }
    std::atomic<uint64_t> acked{0};
    Mutex mutex;
    ConditionVariable changed;  // received grew beyond acked + AckStep(), or the session is ending
    bool ending GUARDED_BY(mutex) = false;
  };

  Relay(std::unique_ptr<Channel> channel, Link& link);

  // The threads' bodies.
  void SendRing(Source& source);
  void SendRanges();
  void SendAcks(Sink& sink);
  void ReceiveFrames();
  void WatchSocket();

  // Sends what the peer has said until now: control messages, then ranges, then the ring's bytes.
  Status SendBatch(Source& source) EXCLUDES(send_mutex_);
  Status SendControls() REQUIRES(send_mutex_);
  Status SendTransfers() REQUIRES(send_mutex_);
  Status SendTransfer(const TransferRecord& transfer) REQUIRES(send_mutex_);
  Status SendEnd(const Status& why) EXCLUDES(send_mutex_);

  // What came from the peer on this host. On whichever thread takes it from the socket.
  Status TakeMessage(SocketMessage message);
  Status TakeOffer(const SegmentOffer& offer, const SocketMessage& message);
  // What came over the link.
  Result<std::span<std::byte>> PlaceOf(const FrameHeader& header);
  Status Arrived(const FrameHeader& header);
  Status ControlArrived(std::span<const std::byte> message);
  Status OfferArrived(const SegmentOffer& offer, std::span<const std::byte> message);

  // The memory behind a segment that was offered, as long as not both ends of the channel have closed it; whoever copies
  // keeps it meanwhile.
  using Memory = std::shared_ptr<const Mapping>;
  Status AddSegment(const SegmentOffer& offer, int fd) EXCLUDES(segments_mutex_);
  void CloseOnce(uint32_t id) EXCLUDES(segments_mutex_);
  bool IsClosed(uint32_t id) EXCLUDES(segments_mutex_);
  // Null data() when there is no such range.
  std::span<std::byte> FindRange(uint32_t segment, uint64_t offset, uint64_t bytes, Memory* memory)
      EXCLUDES(segments_mutex_);
  Source* FindSource(uint32_t id);
  Sink* FindSink(uint32_t id);

  const std::unique_ptr<Channel> channel_;
  Link& link_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<Sink>> sinks_;

  Mutex send_mutex_;
  std::vector<std::byte> send_buffer_ GUARDED_BY(send_mutex_);
  uint64_t transfers_sent_ GUARDED_BY(send_mutex_) = 0;
  Mutex controls_mutex_;
  std::vector<std::vector<std::byte>> controls_ GUARDED_BY(controls_mutex_);  // taken from the socket, not yet sent

  // Of the receiving thread.
  std::vector<std::byte> received_;  // a payload that does not go straight to a segment
  Memory receiving_into_;
  uint64_t transfer_received_ = 0;

  Mutex segments_mutex_;
  std::map<uint32_t, Memory> segments_ GUARDED_BY(segments_mutex_);
  std::set<uint32_t> closed_once_ GUARDED_BY(segments_mutex_);
  std::set<uint32_t> closed_twice_ GUARDED_BY(segments_mutex_);  // ids are never reused

  std::atomic<uint64_t>* received_bytes_ = nullptr;
  std::atomic<int> sending_{0};  // threads in SendRing; the last one passes on the end
};

}  // namespace tessera
