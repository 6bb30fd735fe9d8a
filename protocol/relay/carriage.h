// What a session needs to go on when the process of its relay has ended, at whatever instruction. That is the descriptors of its
// channel and segments, which a keeper has (keeper_line.h), and a page of shared memory with what is written nowhere else.
//
// Most of a relay's state is in the rings already. Their headers say how far they are published and read. The other host sends
// bytes beyond that again, since it keeps them until they were read. How far was sent need not be known: the other host tells
// what it has (relay_resume.cc), and that is checked against what the peer has published. The rest is in the page. Each event is
// done in steps, and a process that ends right after any step does no harm. The table has the steps of each event, and what
// becomes of it when the process ends after one of them:
//
// A transfer arrives         1 its bytes are in the segment  2 transfers_received
//   after 1                  it comes again; nothing that refers to it has come, so nobody has looked
// Ring bytes arrive          1 bytes in the ring  2 the ring's head
//   after 1                  they come again
// A segment's offer arrives  1 its file is the keeper's  2 entry  3 passed on to the peer  4 controls_received
//   after 1                  it comes again, and another file replaces this one
//   after 2, 3               it comes again, and is passed on with the file that is there (offer_arriving); a peer of a mirrored
//                            channel ignores the second (Channel::TakeOffer)
// An offer is refused        1 its number counts  2 its end is recorded  3 controls_received
//   after 1, 2               it comes again, and is refused again; the end is known, as below
// A segment's end arrives    1 entry: closed there  2 passed on  3 controls_received
//   after 1, 2               it comes again; closing what is closed does nothing, here and at the peer
// The other host's Goodbye   1 the peer is told, its socket shut  2 end_heard  3 controls_received
//   after 1                  it comes again, and the peer is deaf by now; or nobody sends it, and the peer is gone
// The peer offers a segment  0 a look at the socket: it stays there  1 its file is the keeper's  2 entry  3 recorded  4 taken off
//   after 0, 1, 2            it is looked at again; what is there already is the same
//   after 3                  it is looked at again, and known: it is the last one recorded, and each is unique
// The peer closes a segment  0 a look  1 entry: closed here  2 recorded  3 taken off
//   after 0, 1               it is looked at again; the entry is closed, or gone
//   after 2                  it is known, as above
// The peer's Goodbye         0 a look  1 goodbye  2 taken off
//   after 1                  it is taken twice, and the first one counts
// A message is acknowledged  1 messages_acked
//   before 1                 the other host tells how many it has
// Both sides have closed it  1 the entry is free  2 the keeper forgets the file
//   after 1                  there is a file without an entry; the process that takes over has it forgotten
// The session is over        1 over  2 the keeper forgets it
//   after 1                  the process that takes over has it forgotten
//
// Entries are made under one lock of the relay, messages recorded under another. Otherwise any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/channel/channel.h"
#include "protocol/keeper/keeper_line.h"
#include "protocol/relay/carriage_page.h"

namespace tessera {

class Carriage {
 public:
  // For a relay without a keeper: the same memory, which ends with it.
  static Result<std::unique_ptr<Carriage>> Unkept();
  // Has `keeper` keep the session of `channel` from now on. `keeper` outlives this.
  static Result<std::unique_ptr<Carriage>> Begin(KeeperLine& keeper, const CarriageTerms& terms, const Channel& channel,
                                                 const Channel::Files& files);
  // Takes over a page from the process before. kProtocolViolation when it holds what our code would never write. When this fails,
  // or the result is destroyed, the keeper forgets the session.
  static Result<std::unique_ptr<Carriage>> Adopt(KeeperLine& keeper, uint64_t number, UniqueFd page);
  // The session is over: the keeper forgets it.
  ~Carriage();
  Carriage(const Carriage&) = delete;
  Carriage& operator=(const Carriage&) = delete;

  CarriagePage& page() { return *page_; }
  bool over() const { return page_->over.load() != 0; }

  // --- messages that the peer on this host has sent ---
  uint64_t recorded() const { return page_->messages_recorded.load(std::memory_order_acquire); }
  uint64_t acked() const { return page_->messages_acked.load(std::memory_order_acquire); }
  size_t kept() const { return recorded() - acked(); }
  // Records the next message. kResourceExhausted when there are too many; kProtocolViolation when it is too long.
  Status Record(std::span<const std::byte> message);
  // Whether this message was recorded last, acknowledged or not.
  bool WasLast(std::span<const std::byte> message) const;
  // The message with number `number`, which is recorded and not acknowledged.
  std::vector<std::byte> Message(uint64_t number) const;
  void RecordGoodbye(std::span<const std::byte> message);
  std::optional<Goodbye> TakenGoodbye() const;

  // --- segments ---
  // Gives the file of a segment to the keeper. Call it before anything else is done with the file.
  Status KeepFile(uint32_t id, int fd);
  void ForgetFile(uint32_t id);
  // Makes a new entry, not closed. An existing entry stays as it is. kResourceExhausted beyond SegmentTable::kSegmentsMax.
  Status AddSegment(uint32_t id, uint64_t size_bytes);
  // Counts a segment without an entry as closed by both sides; the keeper has no file of it.
  void Refuse(uint32_t id);
  // Notes that one side has closed it (kClosedHere, kClosedThere). True when both have, and the entry is gone.
  bool CloseSegment(uint32_t id, uint32_t side);
  // Whether both sides have closed it.
  bool IsClosed(uint32_t id) const;
  // Calls `each` for every entry. Stops at its first failure, and returns that.
  Status ForEachSegment(const std::function<Status(uint32_t id, uint64_t size_bytes)>& each) const;

 private:
  Carriage(KeeperLine* keeper, uint64_t number, Mapping memory);
  CarriagePage::Segment* Find(uint32_t id) const;

  KeeperLine* const keeper_;  // null: nobody keeps the session
  const uint64_t number_;
  const Mapping memory_;
  CarriagePage* const page_;
  std::vector<uint16_t> free_;            // free entries of the page
  std::map<uint32_t, uint16_t> entries_;  // by id
};

}  // namespace tessera
