// What a session needs to go on when the process of its relay has ended, at whatever instruction: the descriptors of its channel
// and segments, which a keeper has (keeper_line.h), and a page of shared memory with what is written nowhere else.
//
// Most of a relay's state is in the rings already. How far they are published and read is in their headers, and bytes beyond that
// are sent again by the other host, which keeps them until they were read. How far was sent need not be known: the other host
// tells what it has (relay_resume.cc), and that is checked against what the peer has published. What remains is in the page, and
// each step leaves it so that a process which ends right behind it does no harm. What happens, in which steps, and what becomes
// of it when the process ends behind one of them:
//
// A transfer arrives         1 its bytes are in the segment  2 transfers_received
//   behind 1                 comes again; nothing that refers to it has come, so nobody has looked
// Ring bytes arrive          1 bytes in the ring  2 the ring's head
//   behind 1                 come again
// A segment's offer arrives  1 its file is the keeper's  2 entry  3 passed on to the peer  4 controls_received
//   behind 1                 comes again, and another file replaces this one
//   behind 2, 3              comes again, and is passed on with the file that is there (offer_arriving); a peer of a mirrored
//                            channel takes no notice of the second (Channel::TakeOffer)
// It is refused              1 its number counts  2 its end is recorded  3 controls_received
//   behind 1, 2              comes again, and is refused again; the end is known, as below
// A segment's end arrives    1 entry: closed there  2 passed on  3 controls_received
//   behind 1, 2              comes again; to close what is closed is nothing, here and to the peer
// The other host's Goodbye   1 the peer is told, its socket shut  2 end_heard  3 controls_received
//   behind 1                 comes again, and the peer is deaf by now; or nobody sends it, and the peer is gone
// The peer offers a segment  0 a look at the socket: it stays there  1 its file is the keeper's  2 entry  3 recorded  4 taken off
//   behind 0, 1, 2           looked at again, and what is there already is the same
//   behind 3                 looked at again, and known: it is the last one recorded, and each is unique
// The peer closes a segment  0 a look  1 entry: closed here  2 recorded  3 taken off
//   behind 0, 1              looked at again; the entry is closed, or gone
//   behind 2                 known, as above
// The peer's Goodbye         0 a look  1 goodbye  2 taken off
//   behind 1                 taken twice, and the first one counts
// A message is acknowledged  1 messages_acked
//   before it                the other host tells how many it has
// Both sides have closed it  1 the entry is free  2 the keeper forgets the file
//   behind 1                 a file without an entry, which who takes over has forgotten
// The session is over        1 over  2 the keeper forgets it
//   behind 1                 who takes over has it forgotten
//
// Entries are made under one lock of the relay, messages recorded under another; any thread otherwise.
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
  // For a relay that nobody keeps anything for: the same memory, which ends with it.
  static Result<std::unique_ptr<Carriage>> Unkept();
  // Has `keeper` keep the session of `channel` from now on; it outlives this.
  static Result<std::unique_ptr<Carriage>> Begin(KeeperLine& keeper, const CarriageTerms& terms, const Channel& channel,
                                                 const Channel::Files& files);
  // Takes over a page from the process before. kProtocolViolation when it holds what none of ours would write. Ends the session
  // at the keeper when it fails, or goes.
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
  // The next one. kResourceExhausted when there are too many of them; kProtocolViolation for one that is too long.
  Status Record(std::span<const std::byte> message);
  // Whether this is the one that was recorded last, acknowledged or not.
  bool WasLast(std::span<const std::byte> message) const;
  // Number `number`, which is recorded and not acknowledged.
  std::vector<std::byte> Message(uint64_t number) const;
  void RecordGoodbye(std::span<const std::byte> message);
  std::optional<Goodbye> TakenGoodbye() const;

  // --- segments ---
  // Gives the file of a segment to the keeper, before anything else is done with it.
  Status KeepFile(uint32_t id, int fd);
  void ForgetFile(uint32_t id);
  // A new entry, not closed; one that there is already stays as it is. kResourceExhausted beyond SegmentTable::kSegmentsMax.
  Status AddSegment(uint32_t id, uint64_t size_bytes);
  // A segment that has no entry counts as one that both sides have closed, and the keeper has no file of it.
  void Refuse(uint32_t id);
  // Notes that one side has closed it (kClosedHere, kClosedThere): true when both have, and the entry is gone.
  bool CloseSegment(uint32_t id, uint32_t side);
  // Whether both sides have closed it.
  bool IsClosed(uint32_t id) const;
  // Calls `each` for every entry.
  Status ForEachSegment(const std::function<Status(uint32_t id, uint64_t size_bytes)>& each) const;

 private:
  Carriage(KeeperLine* keeper, uint64_t number, Mapping memory);
  CarriagePage::Segment* Find(uint32_t id) const;

  KeeperLine* const keeper_;  // null: none
  const uint64_t number_;
  const Mapping memory_;
  CarriagePage* const page_;
  std::vector<uint16_t> free_;            // entries
  std::map<uint32_t, uint16_t> entries_;  // by id
};

}  // namespace tessera
