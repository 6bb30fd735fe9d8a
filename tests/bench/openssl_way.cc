#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <thread>

#include "protocol/base/mutex.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tcp_stream.h"
#include "tests/bench/link_ways.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {
namespace {

struct End {
  std::unique_ptr<RawTlsPeer> peer;
  Mutex mutex;  // of the SSL object
  AdaptiveSpin spin;

  bool All(std::byte* at, size_t bytes, bool send) {
    while (bytes != 0) {
      const int some = static_cast<int>(std::min(bytes, kFrameBytesMax));
      int done = -1;
      int error = SSL_ERROR_NONE;
      const auto ready = [&] {
        MutexLock lock(mutex);
        ERR_clear_error();
        done = send ? SSL_write(peer->ssl(), at, some) : SSL_read(peer->ssl(), at, some);
        error = done > 0 ? SSL_ERROR_NONE : SSL_get_error(peer->ssl(), done);
        return error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
      };
      if (send ? !ready() : !spin.Spin(ready)) {
        pollfd wait = {peer->socket(), static_cast<short>(error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN), 0};
        poll(&wait, 1, -1);
        continue;
      }
      if (done <= 0) return false;
      at += done;
      bytes -= static_cast<size_t>(done);
    }
    return true;
  }
};

}  // namespace

Way OverOpenssl() {
  struct Ends {
    End ends[2];
  };
  auto both = std::make_shared<Ends>();
  const PemPair shown = MakeAuthority("bench", time(nullptr) - kHourS, time(nullptr) + kHourS).value();
  TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
  UniqueFd near = ConnectTcpSocket(listener.address(), false, kNoDeadline - 1).value();
  UniqueFd far = AwaitConnection(listener).value();
  for (const int socket : {near.get(), far.get()}) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  both->ends[0].peer = std::make_unique<RawTlsPeer>(std::move(near), false, shown);
  both->ends[1].peer = std::make_unique<RawTlsPeer>(std::move(far), true, shown);
  std::thread shaking([&] { both->ends[0].peer->ShakeHands(); });
  both->ends[1].peer->ShakeHands();
  shaking.join();
  return {
      [both](int end, std::span<const std::byte> bytes) {
        return both->ends[end].All(const_cast<std::byte*>(bytes.data()), bytes.size(), true);
      },
      [both](int end, std::span<std::byte> bytes) { return both->ends[end].All(bytes.data(), bytes.size(), false); },
      [both] {
        for (End& end : both->ends) end.peer->Cut();
      }};
}

}  // namespace tessera
