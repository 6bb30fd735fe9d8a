// Whom a front at tls:// lets in while strangers come, and whom it refuses.
#include "protocol/rpc/tls_front.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tls/tls_handshake.h"
#include "tests/support/loopback.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {
namespace {

constexpr int kWaitMs = 20'000;
constexpr size_t kFlood = TlsFront::kNewcomers.in_all + 50;

// A front that keeps what it is given; it lives as long as the process, as its thread does.
struct World {
  explicit World(const std::string& host) {
    Result<TcpListener> listener = TcpListener::Bind({host, 0}, true);
    if (!listener.ok()) return;
    address.sin_family = AF_INET;
    address.sin_port = htons(listener->address().port);
    inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    front = TlsFront::Make(listener->Release(), "a test",
                           [proved = proved](UniqueFd socket, const CertificateDescription& shown) {
                             MutexLock lock(proved->mutex);
                             proved->sockets.push_back(std::move(socket));
                             proved->names.push_back(shown.name);
                             return true;
                           })
                .value()
                .release();
    front->Use(TlsIdentity::Load(TlsRole::kServer, authority.Server()).value());
    std::thread([front = front] { front->Run(); }).detach();
  }

  // A connection from `source`, or from anywhere.
  UniqueFd Connect(const char* source = nullptr) const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (source != nullptr) {
      sockaddr_in from{};
      from.sin_family = AF_INET;
      inet_pton(AF_INET, source, &from.sin_addr);
      EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)), 0);
    }
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }
  // So many that say nothing; returns when those have been closed that were beyond `bound`.
  std::vector<UniqueFd> Flood(size_t bound, const char* source = nullptr) const {
    std::vector<UniqueFd> all;
    for (size_t i = 0; i < kFlood; ++i) all.push_back(Connect(source));
    for (size_t i = 0; i + bound < kFlood; ++i) EXPECT_TRUE(IsReadable(all[i])) << i;
    return all;
  }
  static bool IsReadable(const UniqueFd& socket) {
    pollfd ready{socket.get(), POLLIN, 0};
    return poll(&ready, 1, kWaitMs) == 1;
  }

  // Those who were let in.
  struct Proved {
    Mutex mutex;
    std::vector<UniqueFd> sockets GUARDED_BY(mutex);
    std::vector<std::string> names GUARDED_BY(mutex);
  };
  std::vector<std::string> Names() const {
    MutexLock lock(proved->mutex);
    return proved->names;
  }

  // Whether one of this name is let in.
  bool LetsIn(const std::string& name) const {
    for (const uint64_t end_ns = MonotonicNs() + kWaitMs * uint64_t{1'000'000}; MonotonicNs() < end_ns;) {
      if (Names() == std::vector<std::string>{name}) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  const TestAuthority authority;
  const std::shared_ptr<Proved> proved = std::make_shared<Proved>();
  sockaddr_in address{};
  TlsFront* front = nullptr;
};

// A client that does a step of its handshake when it is told to.
class Client {
 public:
  Client(UniqueFd socket, const LinkOptions& options)
      : identity_(TlsIdentity::Load(TlsRole::kClient, options).value()), socket_(std::move(socket)) {
    handshake_.emplace(TlsParties{*identity_, &host_});
  }
  void SayHello() {
    EXPECT_TRUE(handshake_->Take({}).ok());
    Send();
  }
  bool IsAnswered() const { return World::IsReadable(socket_); }
  // Says the rest; false: the front has closed.
  bool Finishes() {
    std::vector<std::byte> bytes(16 * 1024);
    while (!handshake_->done()) {
      if (!IsAnswered()) return false;
      const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0 || !handshake_->Take(std::span(bytes).first(static_cast<size_t>(got))).ok()) return false;
      Send();
    }
    return true;
  }
  // Waits for the front's word on it: nullopt when it just stays open.
  std::optional<ssize_t> Hears() const {
    pollfd ready{socket_.get(), POLLIN, 0};
    if (poll(&ready, 1, kWaitMs) != 1) return std::nullopt;
    char byte = 0;
    return recv(socket_.get(), &byte, 1, 0);
  }

 private:
  void Send() {
    const std::vector<std::byte> words = handshake_->Outgoing();
    EXPECT_EQ(send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
  }

  const LinkAddress host_ = {"localhost", 1, LinkScheme::kTls};
  const std::shared_ptr<const TlsIdentity> identity_;
  const UniqueFd socket_;
  std::optional<TlsHandshake> handshake_;
};

// Its words were right, so it goes after those that say nothing, however many come before it is done.
TEST(TlsFrontTest, AClientInItsHandshakeGoesAfterTheSilent) {
  const World world("127.0.0.1");
  Client client(world.Connect(), world.authority.Client());
  client.SayHello();
  ASSERT_TRUE(client.IsAnswered());
  const std::vector<UniqueFd> silent = world.Flood(TlsFront::kNewcomers.in_all - 1);
  EXPECT_TRUE(client.Finishes() && world.LetsIn("alice"));
}

Status SetAddress(const char* interface, const char* text) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  auto& address = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
  address.sin_family = AF_INET;
  inet_pton(AF_INET, text, &address.sin_addr);
  return ioctl(socket.get(), SIOCSIFADDR, &request) == 0 ? Status::Ok() : Status::FromErrno("cannot set an address", errno);
}

// One source takes no more than its share: whoever comes from elsewhere keeps his place, even one that is silent himself.
TEST(TlsFrontTest, ASourceDrivesOutItsOwnAlone) {
  bool possible = false;
  std::thread([&] {
    possible = unshare(CLONE_NEWNET) == 0 && SetLoopback(true) && SetAddress("lo:1", "10.1.1.1").ok() &&
               SetAddress("lo:2", "10.1.1.2").ok();
    if (!possible) return;
    const World world("10.1.1.1");
    Client client(world.Connect("10.1.1.2"), world.authority.Client());
    const std::vector<UniqueFd> silent = world.Flood(TlsFront::kNewcomers.per_source, "10.1.1.1");
    client.SayHello();
    EXPECT_TRUE(client.Finishes() && world.LetsIn("alice"));
  }).join();
  if (!possible) GTEST_SKIP() << "no network of its own is to be had";
}

// A client's certificate without a name, which `tessera keys` does not make, and other authorities may.
LinkOptions Nameless(const TestAuthority& authority) {
  LinkOptions options = authority.Client("nameless");
  const auto read = [](const std::string& text) { return BIO_new_mem_buf(text.data(), static_cast<int>(text.size())); };
  BIO* const of_authority = read(authority.pair().key);
  EVP_PKEY* const signs = PEM_read_bio_PrivateKey(of_authority, nullptr, nullptr, nullptr);
  BIO* const named = BIO_new_file(options.keys.certificate.c_str(), "r");
  X509* const certificate = PEM_read_bio_X509(named, nullptr, nullptr, nullptr);
  X509_NAME* const nobody = X509_NAME_new();
  EXPECT_EQ(X509_set_subject_name(certificate, nobody), 1);
  for (int at; (at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1)) >= 0;)
    X509_EXTENSION_free(X509_delete_ext(certificate, at));
  EXPECT_GT(X509_sign(certificate, signs, EVP_PKEY_get_id(signs) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256()), 0);
  BIO* const out = BIO_new_file(options.keys.certificate.c_str(), "w");
  EXPECT_EQ(PEM_write_bio_X509(out, certificate), 1);
  for (BIO* const bio : {of_authority, named, out}) BIO_free(bio);
  X509_NAME_free(nobody);
  X509_free(certificate);
  EVP_PKEY_free(signs);
  return options;
}

// Else all of them would be one tenant.
TEST(TlsFrontTest, ACertificateWithoutANameIsRefused) {
  const World world("127.0.0.1");
  Client client(world.Connect(), Nameless(world.authority));
  client.SayHello();
  ASSERT_TRUE(client.Finishes());
  std::optional<ssize_t> got = client.Hears();
  while (got.value_or(0) > 0) got = client.Hears();
  EXPECT_TRUE(got.has_value()) << "it stays";
  Client named(world.Connect(), world.authority.Client());
  named.SayHello();
  EXPECT_TRUE(named.Finishes() && world.LetsIn("alice"));
}

}  // namespace
}  // namespace tessera
