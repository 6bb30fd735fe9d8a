// Things that holders have at a service: connections, calls, requests that wait. Decides which of them goes for a newer one, so
// that nobody is in the way of others: beyond his own bound a holder's oldest goes; beyond the bound for all, the oldest of the
// holder who has most. What a holder with less has never goes for another's.
//
//   HolderShares shares({.of_holder = 16, .in_all = 64});
//   if (const std::optional<HolderShares::Id> goes = shares.Come(7, "name:alice")) ...    // end that one; perhaps it is 7
//   shares.Leave(7);
//
// Pure. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

class HolderShares {
 public:
  using Id = uint64_t;  // the caller chooses it
  struct Bounds {
    size_t of_holder = 0;
    size_t in_all = 0;
  };

  explicit HolderShares(const Bounds& bounds) : bounds_(bounds) {}

  // Enters a new one. Returns the one that is to go for it, and forgets that: another of `holder`, one of a holder who has more
  // than he, or, where each has as few as he, the new one itself.
  std::optional<Id> Come(Id id, const std::string& holder);
  // Forgets one. It may be unknown already.
  void Leave(Id id);
  size_t OfHolder(std::string_view holder) const;
  size_t count() const { return holders_.size(); }

 private:
  using Ids = std::list<Id>;  // the oldest first
  struct Place {
    std::string holder;
    Ids::iterator at;
  };

  const Bounds bounds_;
  std::map<std::string, Ids, std::less<>> of_;  // none is empty
  std::map<Id, Place> holders_;
};

}  // namespace tessera
