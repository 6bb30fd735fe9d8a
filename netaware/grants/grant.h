// A job's right to GPUs of a pool, and what is to be done about it. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netaware/placer/place.h"
#include "protocol/ticket/ticket.h"

namespace tessera {

using GrantId = Ticket::Grant;

// Times are milliseconds of the placer's clock.
struct GrantAsk {
  GrantId id{};          // never used before
  std::string holder{};  // protocol/wire/holder.h
  Wish wish{};
  uint32_t limit = kWholeShare;  // of each GPU's time, `wish.share` at least
  int64_t wait_ms = -1;          // how long it may wait; below 0: as long as it takes

  friend bool operator==(const GrantAsk&, const GrantAsk&) = default;
};

struct Grant {
  enum class State {
    kWaiting,   // nothing fits now: `reason`
    kHolding,   // its servers are asked to hold their parts
    kHeld,      // they do, and it is being stored
    kGranted,   // its tickets serve
    kReleased,  // by its job's end, or because nobody cares for it any more
    kRevoked,   // by an administrator: `reason`
    kRefused,   // it never fits: `reason`
    kLate,      // it was not granted in time: `reason`
  };
  GrantAsk ask{};
  State state = State::kWaiting;
  std::string reason{};
  std::vector<ChosenPart> parts{};  // from kHolding on; the order is the order of the job's devices
};

// What whoever has a GrantBook is to do, in this order.
struct GrantAction {
  enum class Kind {
    kHold,     // ask `server` to hold its part
    kCancel,   // tell it that there will be no grant
    kConfirm,  // tell it that the grant is stored
    kFree,     // tell it that the grant has ended
    kStore,    // make the grant durable as it is, and answer by Stored() or NotStored()
    kForget,   // it has ended: the store need not have it any more
    kTell,     // tell the job: its state, or the reason for which it waits, is another
  };
  Kind kind = Kind::kTell;
  GrantId grant{};
  std::string server{};  // of the first four
};

}  // namespace tessera
