// The ways between two ends that link_bench compares: sockets, links, and rings with relays and a link between them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "protocol/link/link.h"

namespace tessera {

inline constexpr size_t kSmallBytes = 64;
inline constexpr size_t kBulkBytes = kFrameBytesMax;
// What bulk is read from and put into, over and over: more than caches hold, as memory of programs is.
inline constexpr size_t kRegionBytes = size_t{64} << 20;

// Two ends, each with one thread that sends and one that receives. Messages have kSmallBytes or kBulkBytes.
struct Way {
  std::function<bool(int end, std::span<const std::byte>)> send;
  std::function<bool(int end, std::span<std::byte>)> receive;
  std::function<void()> close;
  std::function<void(int end, std::span<std::byte>)> prepare = [](int, std::span<std::byte>) {};  // the region at that end
};

using LinkPair = std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>>;

// `registered`: what is sent in bulk lies in memory that the link was told of, as segments do.
Way OverLinks(LinkPair pair, bool registered = false);

// One socket, used as well as one can: no frames, no checks.
Way OverSocket();

// TLS as OpenSSL does it: its own records, and a lock, since an SSL object must not be used by two threads at once. In
// one direction nobody else wants that lock.
Way OverOpenssl();

// The product's path without CUDA: a record in a ring, a relay, the link, a relay, a ring. Bulk is a range of staging
// and the record that names it; the memory that callers name is not touched.
Way OverRelays(LinkPair pair);

// Half of the cores for each end, as if it were a host: else the kernel puts both ends of a connection on one core. -1:
// all of them. The calling thread, and those that it starts.
void StayAt(int end);

}  // namespace tessera
