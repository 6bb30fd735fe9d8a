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
//
// With a supply of links (link_supply.h) a session outlives its link for a grace time: clients' calls wait, and over the next
// link both ends go on where they were (relay_resume.cc). Without, it ends with its link. With a keeper besides (keeper.h) it
// outlives this process in the same way (carriage.h, relay_adopt.cc).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/channel.h"
#include "protocol/keeper/keeper_line.h"
#include "protocol/link/link.h"
#include "protocol/link/link_supply.h"
#include "protocol/link/resume_messages.h"
#include "protocol/relay/carriage.h"
#include "protocol/relay/returning_links.h"

namespace tessera {

class Relay {
 public:
  // Receives the hello of the client at `socket`, has it answered over the link, and opens the client's channel. A refusal
  // is passed on to the client and returned; a question (server_query.h) is passed on as well as its answer, and is no session
  // either. `deadline_ns` counts for the socket; who gives up waiting for the link closes it. The relay closes it in the end.
  // `supply`: where the next link comes from when this one is lost after the handshake, if the server's host offers that; null:
  // the session ends with the link.
  // `keeper`: keeps the session, if it outlives its link, for a process that goes on with it when this one ends (Adopt);
  // outlives the relay. Null: it ends with this process.
  // `user`: the name of the client's, for people at the other host.
  static Result<std::unique_ptr<Relay>> AtClient(UniqueFd socket, std::shared_ptr<Link> link, std::unique_ptr<LinkSupply> supply,
                                                 uint64_t deadline_ns, KeeperLine* keeper = nullptr,
                                                 const std::string& user = "");
  // Receives the hello over the link, takes it to the server at the socket that `dial` gives, and sends the answer back; also
  // when that is the refusal of a hello of another wire version, or the reason why `dial` has failed. `dial` is called once
  // something that looks like a hello or a question has arrived, not before. `returning`: the sessions of this host that
  // outlive their links; a link that begins with kResume is handed to its session there, which is no session here
  // (kUnavailable). Null: none does. `peer`: as ReturningLinks::Admit(). `keeper`: as above.
  using Dial = std::function<Result<UniqueFd>()>;
  // `host`: where the client is. Hello and question get both, whatever the client said of itself (protocol/wire/holder.h).
  static Result<std::unique_ptr<Relay>> AtServer(const Dial& dial, std::shared_ptr<Link> link, ReturningLinks* returning,
                                                 const std::string& peer, uint64_t deadline_ns, KeeperLine* keeper = nullptr,
                                                 const std::string& host = "");
  // As above without going on; `link` outlives the relay.
  static Result<std::unique_ptr<Relay>> AtClient(UniqueFd socket, Link& link, uint64_t deadline_ns);
  static Result<std::unique_ptr<Relay>> AtServer(UniqueFd socket, Link& link, uint64_t deadline_ns);
  // Goes on with a session whose process has ended: it has no link, and Run() waits for one as for any that was lost. `supply`
  // is called with its token and peer. Null, without an error, when the session had ended just then. Failure: it cannot go on,
  // its peer on this host is told so by a hang-up.
  using Supply = std::function<std::unique_ptr<LinkSupply>(const ResumeToken& token, const std::string& peer)>;
  static Result<std::unique_ptr<Relay>> Adopt(KeeperLine& keeper, KeptSession kept, const Supply& supply);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Carries the session until it is over on either side, on the calling thread and others that end before it returns.
  // Ok when the process at this end's socket left in order, else why it is over.
  Status Run();
  // Ends the session on both sides; Run() returns once the other host knows, or the grace time is over. Any thread.
  void Stop();
  // As Stop(), but waits for nobody: Run() returns soon. Any thread.
  void Abort();

  // Whether the session is without a link now, and waits for one. Any thread.
  bool WaitsForLink() const { return outage_began_ns_.load() != 0; }

  // What all segments of the session may have together; more are refused: the peer on this host does not hear of them, and what
  // the program does with one fails as for want of memory. Before Run().
  void BoundSegments(uint64_t bytes_max) { segment_bytes_max_ = bytes_max; }
  // Where to count the bytes of segments that arrive; outlives the relay. Before Run().
  void CountReceived(std::atomic<uint64_t>* bytes) { received_bytes_ = bytes; }

 private:
  // A ring whose bytes we send: we are its consumer. It keeps them until the far reader has released them.
  struct Source {
    Source(TransferRing id, RingConsumer& ring) : id(id), ring(ring) {}
    const TransferRing id;
    RingConsumer& ring;
    Mutex mutex;                    // for Published and ReleaseTo, which two threads call
    std::atomic<uint64_t> sent{0};  // written under send_mutex_
    uint64_t visible = 0;           // under send_mutex_: how far the far side may read, as far as it was told
  };
  // A ring whose bytes we receive: we are its producer.
  struct Sink {
    Sink(TransferRing id, RingProducer& ring) : id(id), ring(ring) {}
    const TransferRing id;
    RingProducer& ring;
    std::atomic<uint64_t> received{0};  // bytes written by the receiving thread; the reader may see those up to `visible`
    uint64_t visible = 0;
    uint64_t room_end = 0;  // of the receiving thread: up to here there was room when it last looked
    // Bytes that are worth a frame which tells that they were read: with less the far writer cannot lack room, since a record
    // is at most a quarter of a ring.
    uint64_t AckStep() const { return ring.size_bytes() / 8; }
    std::atomic<uint64_t> acked{0};
    Mutex mutex;
    ConditionVariable changed;  // received grew beyond acked + AckStep(), or the session is ending
    bool ending GUARDED_BY(mutex) = false;
  };
  // How a session goes on without its link.
  struct Resumption {
    std::unique_ptr<LinkSupply> supply;  // null: it does not
    ResumeToken token;
    uint64_t grace_ns = 0;
  };

  Relay(std::unique_ptr<Channel> channel, std::unique_ptr<Carriage> carriage, std::shared_ptr<Link> link, Resumption resumption);
  // A relay whose session is kept by `keeper`, if it can go on and there is one.
  static Result<std::unique_ptr<Relay>> Make(std::unique_ptr<Channel> channel, const Channel::Files& files,
                                             std::shared_ptr<Link> link, Resumption resumption, const std::string& peer,
                                             KeeperLine* keeper);
  // Sets the numbers to what is known for certain (relay_adopt.cc).
  Status TakeUp(KeptSession& kept);
  Status TakeUpSegments(KeptSession& kept) EXCLUDES(segments_mutex_);

  // The threads' bodies.
  void SendRing(Source& source);
  void SendRanges();
  void SendAcks(Sink& sink);
  void RunErrands();
  void ReceiveFrames();
  void WatchSocket();

  // Runs `send`, which sends frames with Transmit(), under the lock; over again with the next link when the link was lost
  // meanwhile: what was lost with it is sent again by whoever comes first, as the numbers below say. Waits while there is
  // no link. Fails with the reason why there will be none, or for which `send` failed besides.
  template <typename Send>
  Status Through(const Send& send) EXCLUDES(send_mutex_);
  // One frame, which goes out with those that follow until Flush(): whoever gives the lock away calls it. Failure: the link is
  // lost.
  Status Transmit(const FrameHeader& header, std::span<const std::byte> payload) REQUIRES(send_mutex_);
  Status Flush() REQUIRES(send_mutex_);
  Status LoseLinkUnless(Status sent) REQUIRES(send_mutex_);

  // Sends what the peer has said until now: control messages, then ranges, then the ring's bytes.
  Status SendBatch(Source& source) REQUIRES(send_mutex_);
  Status SendControls() REQUIRES(send_mutex_);
  Status SendTransfers() REQUIRES(send_mutex_);
  Status SendTransfer(const TransferRecord& transfer) REQUIRES(send_mutex_);
  Status SendReceipts() REQUIRES(send_mutex_);
  Status SendEnd() REQUIRES(send_mutex_);
  // Gives the lock away while so many controls are kept that no more may be taken from the socket.
  Status AwaitRoomForControls() REQUIRES(send_mutex_);
  // Takes what waits on the socket, unless too many controls are kept. The result is that of Channel::Check().
  Status TakeFromSocket();
  // Whether one was taken that was not sent.
  bool HasControls() EXCLUDES(controls_mutex_);
  // Everything from the numbers on, over a new link.
  Status Resend() REQUIRES(send_mutex_);
  // Says the end, once everything that the peer had said was sent.
  void SayEnd(const Status& why) EXCLUDES(send_mutex_);
  // Wakes the thread of RunErrands.
  void Errand() EXCLUDES(errands_mutex_);

  // A lost link, on the receiving thread (relay_resume.cc). The next one, ready for use; null when there is none.
  std::shared_ptr<Link> GoOn(const std::shared_ptr<Link>& lost);
  // Tells the far side what is here and hears what is there. kUnavailable: that link is lost as well.
  Status Agree(NextLink& next);
  ResumeState State();
  Status Rewind(const ResumeState& theirs) REQUIRES(send_mutex_);
  Status RewindRing(Source& source, const ResumeState& theirs) REQUIRES(send_mutex_);
  std::shared_ptr<Link> GiveUp(Status why) EXCLUDES(send_mutex_);
  void UseLink(std::shared_ptr<Link> link) EXCLUDES(link_mutex_);
  void CloseLink(bool drop) EXCLUDES(link_mutex_);
  // On the watching thread: what takes too long.
  void CheckTimes();
  bool Finished() const;
  void Wake();

  // What came from the peer on this host. On whichever thread takes it from the socket.
  Status TakeMessage(SocketMessage message);
  Status TakeOffer(const SegmentOffer& offer, const SocketMessage& message);
  // What came over the link.
  Result<std::span<std::byte>> PlaceOf(const FrameHeader& header);
  Status Arrived(const FrameHeader& header);
  Status ControlArrived(std::span<const std::byte> message);
  Status AckArrived(const FrameHeader& header);
  Status TransfersAcked(uint64_t number) EXCLUDES(transfers_mutex_);
  Status ControlsAcked(uint64_t count) EXCLUDES(controls_mutex_);
  Status OfferArrived(const SegmentOffer& offer, std::span<const std::byte> message);
  // As if the peer on this host had closed at once what it does not hear of.
  Status RefuseOffer(const SegmentOffer& offer, const Status& why);

  // The memory behind a segment that was offered, as long as not both ends of the channel have closed it; whoever copies
  // keeps it meanwhile.
  using Memory = std::shared_ptr<const Mapping>;
  // `message`: the offer, when it is of the peer on this host, to be passed on.
  Status AddSegment(const SegmentOffer& offer, int fd, std::span<const std::byte> message) EXCLUDES(segments_mutex_);
  // One side has closed it: CarriagePage::Segment::kClosedHere or kClosedThere.
  void CloseSegment(uint32_t id, uint32_t side) EXCLUDES(segments_mutex_);
  Status Record(std::span<const std::byte> message) EXCLUDES(controls_mutex_);
  // From now on `link` knows the memory of all segments, and the one before does not. Null: none does.
  void RegisterMemory(std::shared_ptr<Link> link) EXCLUDES(segments_mutex_);
  bool IsKnown(uint32_t id) EXCLUDES(segments_mutex_);
  bool IsClosed(uint32_t id) EXCLUDES(segments_mutex_);
  // Null data() when there is no such range.
  std::span<std::byte> FindRange(uint32_t segment, uint64_t offset, uint64_t bytes, Memory* memory) EXCLUDES(segments_mutex_);
  Source* FindSource(uint32_t id);
  Sink* FindSink(uint32_t id);

  // Goes last: the keeper forgets the session when the channel is closed. What is a reference below lies in its page.
  const std::unique_ptr<Carriage> carriage_;
  const std::unique_ptr<Channel> channel_;
  const Resumption resumption_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<Sink>> sinks_;

  Mutex send_mutex_;
  ConditionVariable link_changed_;                      // with send_mutex_: link_, over_, or room for controls
  std::shared_ptr<Link> link_ GUARDED_BY(send_mutex_);  // null while there is none to send through
  Status over_ GUARDED_BY(send_mutex_);                 // not ok: there will be none any more, and why
  bool resend_ GUARDED_BY(send_mutex_) = false;         // a new link: everything from the numbers on
  std::vector<std::byte> send_buffer_ GUARDED_BY(send_mutex_);
  uint32_t offers_seen_ GUARDED_BY(send_mutex_) = 0;    // ToldElsewhere() when the socket was looked at last
  std::vector<std::byte> end_ GUARDED_BY(send_mutex_);  // our Goodbye, once everything before it was sent
  bool end_sent_ GUARDED_BY(send_mutex_) = false;

  // The ring of transfers is what keeps them until they are acknowledged.
  Mutex transfers_mutex_;                    // for Published and ReleaseTo of that ring
  std::atomic<uint64_t> transfers_sent_{0};  // number of the last one; written under send_mutex_
  uint64_t transfers_acked_ GUARDED_BY(transfers_mutex_) = 0;

  Mutex controls_mutex_;                    // for the messages of carriage_: taken from the socket, not acknowledged
  std::atomic<uint64_t> controls_sent_{0};  // written under send_mutex_

  // What has arrived, by the receiving thread, and what the other side was told of it.
  std::atomic<uint64_t>& transfers_received_;
  std::atomic<uint64_t> transfers_told_{0};
  std::atomic<uint64_t>& controls_received_;
  std::atomic<uint64_t> controls_told_{0};
  std::atomic<uint64_t> frames_received_{0};
  std::atomic<bool> probed_{false};  // the other end probes the link: its silence means something

  // Of the receiving thread.
  UniqueFd adopted_file_;            // of the segment offer_arriving: its offer may come again
  std::vector<std::byte> received_;  // a payload that does not go straight to a segment
  Memory receiving_into_;

  Mutex errands_mutex_;
  ConditionVariable errands_changed_;
  bool errand_ GUARDED_BY(errands_mutex_) = false;
  bool errands_over_ GUARDED_BY(errands_mutex_) = false;

  // Of whoever closes the link while others use it.
  Mutex link_mutex_;
  std::shared_ptr<Link> current_ GUARDED_BY(link_mutex_);
  bool aborted_ GUARDED_BY(link_mutex_) = false;

  UniqueFd wake_;                           // an eventfd, for the watching thread
  std::atomic<uint64_t>& outage_began_ns_;  // 0: there is a link
  std::atomic<uint64_t> end_said_ns_{0};    // 0: not yet
  std::atomic<bool> end_heard_{false};      // the other host's Goodbye
  std::atomic<bool> given_up_{false};       // there will be no link any more
  // Of the watching thread.
  uint64_t outage_told_ns_ = 0;
  uint64_t frames_seen_ = 0;
  uint64_t frames_seen_ns_ = 0;

  Mutex segments_mutex_;
  // With the entries of carriage_.
  std::map<uint32_t, Memory> segments_ GUARDED_BY(segments_mutex_);
  uint64_t segment_bytes_ GUARDED_BY(segments_mutex_) = 0;  // of all of them
  uint64_t segment_bytes_max_ = UINT64_MAX;
  int refusals_told_ = 0;                                         // of the receiving thread
  std::shared_ptr<Link> registered_ GUARDED_BY(segments_mutex_);  // that knows their memory
  bool first_message_ = false;  // of the socket, after Adopt(); under the channel's lock of its socket

  std::atomic<uint64_t>* received_bytes_ = nullptr;
  std::atomic<int> sending_{0};  // threads in SendRing; the last one says the end
};

}  // namespace tessera
