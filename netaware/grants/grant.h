// A job's right to GPUs of a pool, and the actions that carry it out. Plain values.
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
  uint32_t limit = kWholeShare;  // of each GPU's time; at least `wish.share`
  int64_t wait_ms = -1;          // the longest wait; below 0: no limit

  friend bool operator==(const GrantAsk&, const GrantAsk&) = default;
};

struct Grant {
  enum class State {
    kWaiting,   // nothing fits now: `reason`
    kHolding,   // its servers are asked to hold their parts
    kHeld,      // all hold their parts, and it is being stored
    kGranted,   // it is stored, and its tickets are valid
    kReleased,  // its job has ended or withdrawn, or was silent for too long
    kRevoked,   // ended by an administrator or the placer: `reason`
    kRefused,   // it never fits: `reason`
    kLate,      // it was not granted in time: `reason`
  };
  GrantAsk ask{};
  State state = State::kWaiting;
  std::string reason{};
  std::vector<ChosenPart> parts{};  // from kHolding on, in the order of the job's devices
};

// An action for the owner of a GrantBook, who carries actions out in their order.
struct GrantAction {
  enum class Kind {
    kHold,     // ask `server` to hold its part
    kCancel,   // order `server` to drop its part: there will be no grant
    kConfirm,  // inform `server` that the grant is stored
    kFree,     // inform `server` that the grant has ended
    kStore,    // make the grant durable as it is, and answer by Stored() or NotStored()
    kForget,   // remove the grant from the store: it has ended, or waits again
    kTell,     // inform the job: its state, or its reason for waiting, has changed
  };
  Kind kind = Kind::kTell;
  GrantId grant{};
  std::string server{};  // of kHold, kCancel, kConfirm and kFree
};

}  // namespace tessera
