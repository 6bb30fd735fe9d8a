#include <openssl/ssl.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <thread>

#include "protocol/base/mutex.h"
#include "tests/bench/link_ways.h"
#include "tests/bench/plain_sockets.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {
namespace {

struct End {
  std::unique_ptr<RawTlsPeer> peer;
  Mutex mutex;  // of the SSL object
  AdaptiveSpin spin;

  bool All(std::byte* at, size_t bytes, bool send) {
    return MoveAll(peer->socket(), send ? nullptr : &spin, at, bytes, [&](std::byte* from, size_t more) -> Moved {
      const int some = static_cast<int>(std::min(more, kFrameBytesMax));
      MutexLock lock(mutex);
      ERR_clear_error();
      const int done = send ? SSL_write(peer->ssl(), from, some) : SSL_read(peer->ssl(), from, some);
      const int error = done > 0 ? SSL_ERROR_NONE : SSL_get_error(peer->ssl(), done);
      if (error == SSL_ERROR_WANT_WRITE) return {0, POLLOUT};
      if (error == SSL_ERROR_WANT_READ) return {0, POLLIN};
      return {done, 0};
    });
  }
};

}  // namespace

Way OverOpenssl() {
  struct Ends {
    End ends[2];
  };
  auto both = std::make_shared<Ends>();
  const PemPair shown = MakeAuthority("bench", time(nullptr) - kHourS, time(nullptr) + kHourS).value();
  auto [near, far] = ConnectSockets();
  both->ends[0].peer = std::make_unique<RawTlsPeer>(std::move(near), false, shown);
  both->ends[1].peer = std::make_unique<RawTlsPeer>(std::move(far), true, shown);
  std::thread shaking([&] { both->ends[0].peer->ShakeHands(); });
  both->ends[1].peer->ShakeHands();
  shaking.join();
  return {[both](int end, std::span<const std::byte> bytes) {
            return both->ends[end].All(const_cast<std::byte*>(bytes.data()), bytes.size(), true);
          },
          [both](int end, std::span<std::byte> bytes) { return both->ends[end].All(bytes.data(), bytes.size(), false); },
          [both] {
            for (End& end : both->ends) end.peer->Cut();
          }};
}

}  // namespace tessera
