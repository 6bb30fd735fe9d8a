// What strangers, and peers that have proved a name, send to a front of gRPC at tls://. Input: u8 mode, then for
//   0  all that a stranger says
//   1  what a peer says behind its handshake, as it comes
//   2  the same in records that it seals: u8 content, u16 bytes, the bytes
// It has to close upon a stranger, and to serve whoever comes next.
#include "protocol/rpc/tls_front.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "protocol/base/clock.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_records.h"
#include "tests/fuzz/target.h"
#include "tests/support/tls_keys_in.h"

namespace tessera::fuzz {
namespace {

enum Mode : uint8_t { kStranger, kRaw, kSealed };
constexpr uint8_t kModes = 3;
constexpr uint64_t kWaitNs = 5'000'000'000, kPipeNs = 20'000'000;
constexpr char kEcho[] = "still there";

// A front whose peers hear what they say.
class Front {
 public:
  Front() {
    UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un any{.sun_family = AF_UNIX, .sun_path = {}};
    FUZZ_CHECK(bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any.sun_family)) == 0);  // a name of its own
    length_ = sizeof(address_);
    FUZZ_CHECK(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address_), &length_) == 0);
    FUZZ_CHECK(listen(listener.get(), 64) == 0);
    front_ = TlsFront::Make(std::move(listener), "a fuzzed service", [](UniqueFd socket, const CertificateDescription& shown) {
               FUZZ_CHECK(shown.name == "alice");
               std::thread(Echo, std::move(socket)).detach();
               return true;
             }).value();
    front_->Use(TlsIdentity::Load(TlsRole::kServer, authority_.Server()).value());
    std::thread([this] { front_->Run(); }).detach();
  }
  UniqueFd Connect() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    FUZZ_CHECK(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address_), length_) == 0);
    FUZZ_CHECK(fcntl(socket.get(), F_SETFL, O_NONBLOCK) == 0);
    return socket;
  }
  TlsSession Prove(int socket) const {
    Result<TlsSession> session = ShakeHands(socket, {*client_, &host_}, MonotonicNs() + kWaitNs);
    FUZZ_CHECK(session.ok());
    return std::move(*session);
  }

 private:
  static void Echo(UniqueFd socket) {
    char bytes[4096];
    for (;;) {
      pollfd ready{socket.get(), POLLIN, 0};
      poll(&ready, 1, -1);
      const ssize_t got = recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return;
      // Whoever does not listen loses what is said.
      if (got > 0) (void)!send(socket.get(), bytes, static_cast<size_t>(got), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  const TestAuthority authority_;
  const LinkAddress host_ = {"localhost", 1, LinkScheme::kTls};
  const std::shared_ptr<const TlsIdentity> client_ = TlsIdentity::Load(TlsRole::kClient, authority_.Client()).value();
  sockaddr_un address_{};
  socklen_t length_ = 0;
  std::unique_ptr<TlsFront> front_;
};

// Until the other end closes, or `enough` bytes have come; nothing: neither in time.
std::optional<size_t> Receive(int socket, size_t enough, uint64_t wait_ns = kWaitNs) {
  size_t received = 0;
  std::byte bytes[4096];
  for (const uint64_t end_ns = MonotonicNs() + wait_ns; received < enough;) {
    if (MonotonicNs() >= end_ns) return std::nullopt;
    pollfd ready{socket, POLLIN, 0};
    poll(&ready, 1, 10);
    const ssize_t got = recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) break;
    if (got > 0) received += static_cast<size_t>(got);
  }
  return received;
}

void Say(int socket, std::span<const std::byte> bytes) {
  for (const uint64_t end_ns = MonotonicNs() + kWaitNs; !bytes.empty() && MonotonicNs() < end_ns;) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return;  // it has closed
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
    if (sent < 0) (void)Receive(socket, 1, kPipeNs);  // it says things of its own, and waits for them to be heard
  }
}

std::vector<std::byte> Sealed(const TlsSession& session, Reader in) {
  TlsKeys keys(session.sending);
  std::vector<std::byte> records;
  while (!in.empty() && records.size() < (size_t{32} << 10)) {
    const auto content = static_cast<TlsContent>(in.Take<uint8_t>());
    const std::span<const std::byte> bytes = in.Bytes(in.Take<uint16_t>() % (kTlsPlainBytesMax + 1));
    const size_t at = records.size();
    records.resize(at + bytes.size() + kTlsOverheadBytes);
    keys.Seal(content, bytes, {}, records.data() + at);
  }
  return records;
}

}  // namespace

void Run(std::span<const std::byte> input) {
  static const Front& front = *new Front();
  Reader in(input);
  const uint8_t mode = in.Take<uint8_t>() % kModes;
  {
    const UniqueFd socket = front.Connect();
    if (mode == kStranger) {
      Say(socket.get(), in.Rest());
    } else {
      const TlsSession session = front.Prove(socket.get());
      mode == kRaw ? Say(socket.get(), in.Rest()) : Say(socket.get(), Sealed(session, in));
    }
    shutdown(socket.get(), SHUT_WR);
    // A pipe may wait for its process first, for TlsPipe::kEndNs.
    const bool closes = Receive(socket.get(), SIZE_MAX, mode == kStranger ? kWaitNs : kPipeNs).has_value();
    FUZZ_CHECK(closes || mode != kStranger);
  }
  static int inputs = 0;
  if (inputs++ % 32 != 0) return;
  const UniqueFd socket = front.Connect();
  const TlsSession session = front.Prove(socket.get());
  const auto words = std::as_bytes(std::span(kEcho));
  Say(socket.get(), Sealed(session, Reader(Writer()
                                               .Put(static_cast<uint8_t>(TlsContent::kData))
                                               .Put(static_cast<uint16_t>(words.size()))
                                               .Bytes(words)
                                               .input())));
  FUZZ_CHECK(Receive(socket.get(), words.size()).value_or(0) >= words.size());
}

std::vector<Input> Seeds() {
  const std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const auto words = std::as_bytes(std::span(text));
  const std::byte hello[] = {std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{4},
                             std::byte{1},    std::byte{0}, std::byte{0}, std::byte{0}};
  const auto sealed = [&](TlsContent content) {
    return Writer()
        .Put(static_cast<uint8_t>(kSealed))
        .Put(static_cast<uint8_t>(content))
        .Put(static_cast<uint16_t>(words.size()))
        .Bytes(words)
        .input();
  };
  return {Writer().Put(static_cast<uint8_t>(kStranger)).Bytes(hello).input(),
          Writer().Put(static_cast<uint8_t>(kStranger)).Bytes(words).input(),
          Writer().Put(static_cast<uint8_t>(kRaw)).Bytes(hello).input(),
          sealed(TlsContent::kData),
          sealed(TlsContent::kHandshake),
          sealed(TlsContent::kAlert)};
}

}  // namespace tessera::fuzz
