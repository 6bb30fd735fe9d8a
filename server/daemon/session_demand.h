// How many sessions of one kind begin close together, from those that have begun lately. Long sessions do not count: what they
// would save is nothing beside what they take, and a job of many processes starts them once.
//
// Pure: the caller gives the time. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tessera {

class SessionDemand {
 public:
  // What sessions count that lasted no longer.
  static constexpr uint64_t kShortNs = 5'000'000'000;
  // How long a session counts after it began.
  static constexpr uint64_t kMemoryNs = 30'000'000'000;

  // A session has ended. Times as MonotonicNs().
  void Note(uint64_t began_ns, uint64_t ended_ns);
  // The most sessions that began within any `span_ns`, of those that count at `now_ns`.
  size_t Peak(uint64_t now_ns, uint64_t span_ns);
  // When the next one ceases to count; kNoDeadline: none counts.
  uint64_t next_ns() const;

 private:
  // No more: beyond it the oldest are forgotten. Any bound on workers is far below.
  static constexpr size_t kCountedMax = 256;

  std::deque<uint64_t> began_;  // ascending
};

}  // namespace tessera
