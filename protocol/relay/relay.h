// One end of a mirrored channel. It joins the channel of a client or a worker on this host to a link. Two relays and the link
// between them let two processes that share no pages see one channel. A relay knows no CUDA and interprets no record.
//
//   at the client's host                                    at the server's host
//   auto relay = Relay::AtClient(socket, link, deadline)    auto relay = Relay::AtServer(socket, link, deadline)
//   Status why = relay->Run();                              Status why = relay->Run();
//
// Towards the client a relay is the server, towards the worker it is the client. The peer is whichever of the two is on this
// host. Each relay makes rings and segments of its own. It passes on the handshake (and tells both ends that they are mirrored),
// segments, ring bytes and transfers.
//
// What holds for both ends of the channel:
// - A segment's offer arrives before the first record that could refer to it. A transfer arrives before the ring bytes that its
//   sender published after it.
// - Ring bytes are given back to their producer only when the reader on the far side has released them. So they always find room
//   there, a slow reader slows its writer down, and the ring itself keeps what a lost link has to repeat.
// - What one side said before it left is delivered, then its end.
// What gathers while a frame is being sent goes out with the next frame; there is no timer.
//
// With a supply of links (link_supply.h) a session outlives its link for a grace time. The client's calls wait, and over the next
// link both ends go on where they were (relay_resume.cc). Without a supply the session ends with its link. With a keeper as well
// (keeper.h) a session outlives this process in the same way (carriage.h, relay_adopt.cc).
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
#include "protocol/relay/segment_budget.h"

namespace tessera {

class Relay {
 public:
  // Receives the hello of the client at `socket`, has it answered over the link, and opens the client's channel. A refusal is
  // passed on to the client and returned. A question (server_query.h) and its answer are passed on too; that makes no session and
  // is a failure here. The relay closes `socket` in the end. `deadline_ns` counts for the socket: to stop waiting for the link,
  // close the link.
  // `supply`: gives the next link when this one is lost after the handshake, if the server's host offers that. Null: the session
  // ends with the link.
  // `keeper`: keeps the session, if it outlives its link, for a process that goes on with it when this one ends (Adopt). It
  // outlives the relay. Null: the session ends with this process.
  // `user`: the name of the client's user, for people at the other host.
  static Result<std::unique_ptr<Relay>> AtClient(UniqueFd socket, std::shared_ptr<Link> link, std::unique_ptr<LinkSupply> supply,
                                                 uint64_t deadline_ns, KeeperLine* keeper = nullptr,
                                                 const std::string& user = "");
  // Receives the hello over the link, takes it to the server at the socket that `dial` gives, and sends the answer back. The
  // answer may be a refusal: of a hello of another wire version, or because `dial` failed. `dial` is called only once something
  // has arrived that looks like a hello or a question.
  // `bytes`: what the channel of the session takes of this host's memory; 0 for a question.
  // `returning`: the sessions of this host that outlive their links. A link that begins with kResume is handed to its session
  // there, and makes no session here (kUnavailable). Null: no session outlives its link.
  // `peer`: as for ReturningLinks::Admit(). `keeper`: as above.
  using Dial = std::function<Result<UniqueFd>(uint64_t bytes)>;
  // `host`: where the client is. The hello carries `peer` and `host`, and a question carries `peer`, whatever the client said of
  // itself (protocol/wire/holder.h).
  static Result<std::unique_ptr<Relay>> AtServer(const Dial& dial, std::shared_ptr<Link> link, ReturningLinks* returning,
                                                 const std::string& peer, uint64_t deadline_ns, KeeperLine* keeper = nullptr,
                                                 const std::string& host = "");
  // As above, but the session ends with its link. `link` outlives the relay.
  static Result<std::unique_ptr<Relay>> AtClient(UniqueFd socket, Link& link, uint64_t deadline_ns);
  static Result<std::unique_ptr<Relay>> AtServer(UniqueFd socket, Link& link, uint64_t deadline_ns);
  // Goes on with a session whose process has ended. The session has no link, and Run() waits for one as after any loss. `supply`
  // is called with the session's token and peer. Null without an error: the session had just ended. On failure it cannot go on,
  // and its peer on this host is hung up on.
  using Supply = std::function<std::unique_ptr<LinkSupply>(const ResumeToken& token, const std::string& peer)>;
  static Result<std::unique_ptr<Relay>> Adopt(KeeperLine& keeper, KeptSession kept, const Supply& supply);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Carries the session until it is over on either side, on the calling thread and on others that end before it returns. Ok when
  // the process at this end's socket left in order; else the reason why the session is over.
  Status Run();
  // Ends the session on both sides. Run() returns once the other host knows, or the grace time is over. Any thread.
  void Stop();
  // As Stop(), but waits for nobody: Run() returns soon. Any thread.
  void Abort();

  // What a channel of these sizes, as a client asks for them, takes of this host's memory: its rings and staging.
  static uint64_t ChannelBytes(const ChannelSizes& sizes);
  uint64_t channel_bytes() const { return ChannelBytes(channel_->sizes()); }

  // Whether the session has no link now and waits for one. Any thread.
  bool WaitsForLink() const { return outage_began_ns_.load() != 0; }

  // Bounds the size of all the session's segments together; more are refused. The peer does not hear of a refused segment, and
  // what the program does with it fails as for want of memory. Call it before Run().
  // `budget`: of the segments of all sessions, which outlives the relay; null: these have no bound.
  void BoundSegments(uint64_t bytes_max, SegmentBudget* budget = nullptr) EXCLUDES(segments_mutex_);
  // Counts the bytes of segments that arrive in `*bytes`, which outlives the relay. Call it before Run().
  void CountReceived(std::atomic<uint64_t>* bytes) { received_bytes_ = bytes; }

 private:
  // A ring whose bytes we send: we are its consumer. It keeps the bytes until the far reader has released them.
  struct Source {
    Source(TransferRing id, RingConsumer& ring) : id(id), ring(ring) {}
    const TransferRing id;
    RingConsumer& ring;
    Mutex mutex;                    // for Published and ReleaseTo: two threads call them
    std::atomic<uint64_t> sent{0};  // written under send_mutex_
    uint64_t visible = 0;           // under send_mutex_: how far the far side was told it may read
  };
  // A ring whose bytes we receive: we are its producer.
  struct Sink {
    Sink(TransferRing id, RingProducer& ring) : id(id), ring(ring) {}
    const TransferRing id;
    RingProducer& ring;
    std::atomic<uint64_t> received{0};  // bytes that the receiving thread has written; readers see those up to `visible`
    uint64_t visible = 0;
    uint64_t room_end = 0;  // of the receiving thread: where room ended when it last looked
    // So many bytes that were read are worth a frame that tells of them. While fewer are untold the far writer cannot lack room,
    // since a record is at most a quarter of a ring.
    uint64_t AckStep() const { return ring.size_bytes() / 8; }
    std::atomic<uint64_t> acked{0};
    Mutex mutex;
    ConditionVariable changed;  // received exceeds acked + AckStep(), or the session is ending
    bool ending GUARDED_BY(mutex) = false;
  };
  // How a session goes on when its link is lost.
  struct Resumption {
    std::unique_ptr<LinkSupply> supply;  // null: it does not go on
    ResumeToken token;
    uint64_t grace_ns = 0;
  };

  Relay(std::unique_ptr<Channel> channel, std::unique_ptr<Carriage> carriage, std::shared_ptr<Link> link, Resumption resumption);
  // Makes a relay. `keeper` keeps its session if the session can go on and there is a keeper.
  static Result<std::unique_ptr<Relay>> Make(std::unique_ptr<Channel> channel, const Channel::Files& files,
                                             std::shared_ptr<Link> link, Resumption resumption, const std::string& peer,
                                             KeeperLine* keeper);
  // Sets the numbers to what is known for certain (relay_adopt.cc).
  Status TakeUp(KeptSession& kept);
  Status TakeUpSegments(KeptSession& kept) EXCLUDES(segments_mutex_);

  // What the threads run.
  void SendRing(Source& source);
  void SendRanges();
  void SendAcks(Sink& sink);
  void RunErrands();
  void ReceiveFrames();
  void WatchSocket();

  // Runs `send`, which sends frames with Transmit(), under the lock. Waits while there is no link. When the link is lost
  // meanwhile, runs it again with the next link; whoever comes first sends again what was lost, as the numbers below say. Fails
  // with the reason why there will be no link any more, or with a failure of `send` itself.
  template <typename Send>
  Status Through(const Send& send) EXCLUDES(send_mutex_);
  // Sends one frame, which goes out with the following ones at Flush(). Call Flush() before you give the lock away. Failure: the
  // link is lost.
  Status Transmit(const FrameHeader& header, std::span<const std::byte> payload) REQUIRES(send_mutex_);
  Status Flush() REQUIRES(send_mutex_);
  Status LoseLinkUnless(Status sent) REQUIRES(send_mutex_);

  // Sends what the peer has said so far: control messages, then ranges, then the ring's bytes.
  Status SendBatch(Source& source) REQUIRES(send_mutex_);
  Status SendControls() REQUIRES(send_mutex_);
  Status SendTransfers() REQUIRES(send_mutex_);
  Status SendTransfer(const TransferRecord& transfer) REQUIRES(send_mutex_);
  Status SendReceipts() REQUIRES(send_mutex_);
  Status SendEnd() REQUIRES(send_mutex_);
  // Waits, without the lock, while so many controls are kept that no more may be taken from the socket.
  Status AwaitRoomForControls() REQUIRES(send_mutex_);
  // Takes what waits on the socket, unless too many controls are kept. The result is that of Channel::Check().
  Status TakeFromSocket();
  // Whether a control was taken that is not sent yet.
  bool HasControls() EXCLUDES(controls_mutex_);
  // Sends everything from the numbers on again, over a new link.
  Status Resend() REQUIRES(send_mutex_);
  // Says the end to the other host, once everything that the peer had said was sent.
  void SayEnd(const Status& why) EXCLUDES(send_mutex_);
  // Wakes the thread that runs RunErrands().
  void Errand() EXCLUDES(errands_mutex_);

  // Replaces a lost link, on the receiving thread (relay_resume.cc). Returns the next one, ready for use; null when there is
  // none.
  std::shared_ptr<Link> GoOn(const std::shared_ptr<Link>& lost);
  // Tells the far side what has arrived here, and hears what has arrived there. kUnavailable: this link is lost as well.
  Status Agree(NextLink& next);
  ResumeState State();
  Status Rewind(const ResumeState& theirs) REQUIRES(send_mutex_);
  Status RewindRing(Source& source, const ResumeState& theirs) REQUIRES(send_mutex_);
  std::shared_ptr<Link> GiveUp(Status why) EXCLUDES(send_mutex_);
  void UseLink(std::shared_ptr<Link> link) EXCLUDES(link_mutex_);
  void CloseLink(bool drop) EXCLUDES(link_mutex_);
  // Ends what takes too long. On the watching thread.
  void CheckTimes();
  bool Finished() const;
  void Wake();

  // Take what came from the peer. They run on whichever thread takes it from the socket.
  Status TakeMessage(SocketMessage message);
  Status TakeOffer(const SegmentOffer& offer, const SocketMessage& message);
  // Take what came over the link.
  Result<std::span<std::byte>> PlaceOf(const FrameHeader& header);
  Status Arrived(const FrameHeader& header);
  Status ControlArrived(std::span<const std::byte> message);
  Status AckArrived(const FrameHeader& header);
  Status TransfersAcked(uint64_t number) EXCLUDES(transfers_mutex_);
  Status ControlsAcked(uint64_t count) EXCLUDES(controls_mutex_);
  Status OfferArrived(const SegmentOffer& offer, std::span<const std::byte> message);
  // Answers the other host as if the peer had closed the segment at once. The peer never hears of it.
  Status RefuseOffer(const SegmentOffer& offer, const Status& why);

  // The memory behind a segment that was offered. A segment is known until both ends of the channel have closed it; whoever
  // copies keeps its memory meanwhile.
  using Memory = std::shared_ptr<const Mapping>;
  // `message`: the offer to pass on, if it came from the peer; else empty.
  Status AddSegment(const SegmentOffer& offer, int fd, std::span<const std::byte> message) EXCLUDES(segments_mutex_);
  // The same for one that has room.
  Status KeepSegment(const SegmentOffer& offer, int fd, std::span<const std::byte> message) EXCLUDES(segments_mutex_);
  // Notes that one side has closed it: CarriagePage::Segment::kClosedHere or kClosedThere.
  void CloseSegment(uint32_t id, uint32_t side) EXCLUDES(segments_mutex_);
  Status Record(std::span<const std::byte> message) EXCLUDES(controls_mutex_);
  // Registers the memory of all segments with `link`, and with the link before no more. Null: with none.
  void RegisterMemory(std::shared_ptr<Link> link) EXCLUDES(segments_mutex_);
  bool IsKnown(uint32_t id) EXCLUDES(segments_mutex_);
  bool IsClosed(uint32_t id) EXCLUDES(segments_mutex_);
  // Null data() when there is no such range. `*memory` keeps the range.
  std::span<std::byte> FindRange(uint32_t segment, uint64_t offset, uint64_t bytes, Memory* memory) EXCLUDES(segments_mutex_);
  Source* FindSource(uint32_t id);
  Sink* FindSink(uint32_t id);

  // Is destroyed last: the keeper forgets the session only when the channel is closed. The references below point into its page.
  const std::unique_ptr<Carriage> carriage_;
  const std::unique_ptr<Channel> channel_;
  const Resumption resumption_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::unique_ptr<Sink>> sinks_;

  Mutex send_mutex_;
  ConditionVariable link_changed_;                      // with send_mutex_: link_, over_ or the room for controls changed
  std::shared_ptr<Link> link_ GUARDED_BY(send_mutex_);  // null while there is none to send through
  Status over_ GUARDED_BY(send_mutex_);                 // not ok: there will be no link any more, and why
  bool resend_ GUARDED_BY(send_mutex_) = false;         // the link is new: send everything from the numbers on
  std::vector<std::byte> send_buffer_ GUARDED_BY(send_mutex_);
  uint32_t offers_seen_ GUARDED_BY(send_mutex_) = 0;    // ToldElsewhere() at the last look at the socket
  std::vector<std::byte> end_ GUARDED_BY(send_mutex_);  // our Goodbye, set once everything before it was sent
  bool end_sent_ GUARDED_BY(send_mutex_) = false;

  // The ring of transfers keeps them until they are acknowledged.
  Mutex transfers_mutex_;                    // for Published and ReleaseTo of that ring
  std::atomic<uint64_t> transfers_sent_{0};  // number of the last one; written under send_mutex_
  uint64_t transfers_acked_ GUARDED_BY(transfers_mutex_) = 0;

  Mutex controls_mutex_;                    // for the messages of carriage_: taken from the socket, not yet acknowledged
  std::atomic<uint64_t> controls_sent_{0};  // written under send_mutex_

  // What has arrived, as the receiving thread counts it, and how much of it the other side was told.
  std::atomic<uint64_t>& transfers_received_;
  std::atomic<uint64_t> transfers_told_{0};
  std::atomic<uint64_t>& controls_received_;
  std::atomic<uint64_t> controls_told_{0};
  std::atomic<uint64_t> frames_received_{0};
  std::atomic<bool> probed_{false};  // the other end probes the link, so its silence means something

  // For the receiving thread only.
  UniqueFd adopted_file_;            // of the segment in offer_arriving: its offer may come again
  std::vector<std::byte> received_;  // a payload that does not go straight into a segment
  Memory receiving_into_;

  Mutex errands_mutex_;
  ConditionVariable errands_changed_;
  bool errand_ GUARDED_BY(errands_mutex_) = false;
  bool errands_over_ GUARDED_BY(errands_mutex_) = false;

  // For closing the link while others use it.
  Mutex link_mutex_;
  std::shared_ptr<Link> current_ GUARDED_BY(link_mutex_);
  bool aborted_ GUARDED_BY(link_mutex_) = false;

  UniqueFd wake_;                           // an eventfd that wakes the watching thread
  std::atomic<uint64_t>& outage_began_ns_;  // 0: there is a link
  std::atomic<uint64_t> end_said_ns_{0};    // 0: not yet
  std::atomic<bool> end_heard_{false};      // the other host's Goodbye
  std::atomic<bool> given_up_{false};       // there will be no link any more
  // For the watching thread only.
  uint64_t outage_told_ns_ = 0;
  uint64_t frames_seen_ = 0;
  uint64_t frames_seen_ns_ = 0;

  Mutex segments_mutex_;
  // Changes together with the entries of carriage_.
  std::map<uint32_t, Memory> segments_ GUARDED_BY(segments_mutex_);
  uint64_t segment_bytes_ GUARDED_BY(segments_mutex_) = 0;  // of all segments
  uint64_t segment_bytes_max_ = UINT64_MAX;
  SegmentBudget* budget_ = nullptr;
  int refusals_told_ = 0;                                         // for the receiving thread only
  std::shared_ptr<Link> registered_ GUARDED_BY(segments_mutex_);  // the link that knows their memory
  bool first_message_ = false;  // next message is the first after Adopt(); under the channel's lock of its socket

  std::atomic<uint64_t>* received_bytes_ = nullptr;
  std::atomic<int> sending_{0};  // threads in SendRing(); the last one says the end
};

}  // namespace tessera
