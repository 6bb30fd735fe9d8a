// A network that changes what OpenSSL and the TLS link say to each other: whatever becomes of it, what is received is a begin of
// what was said, and all of it where nothing was changed.
// Input: u8 sides, then steps of u8 kind and u16 number: what is said, in this order; from kChanges on, what the network does.
#include <openssl/err.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_openssl_stream.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/fuzz/target.h"
#include "tests/support/memory_tls_peer.h"
#include "tests/support/tls_pair.h"

namespace tessera::fuzz {
namespace {

// Of `sides`.
constexpr uint8_t kPeerIsServer = 1, kOpensslHere = 2, kCrew = 4, kFromHere = 8, kTickets = 16;
// Kinds of steps.
enum Step : uint8_t { kSay, kSayLong, kNewKeys, kPadding, kTicket, kGoodbye, kChanges };
constexpr uint8_t kSteps = 7;
enum Change : uint8_t { kFlip, kDrop, kRepeat, kPut, kCutOff, kSwap };
constexpr uint8_t kChangeKinds = 6;
constexpr size_t kSaidMax = size_t{96} << 10;

struct Parties {
  const TestAuthority authority;
  const std::shared_ptr<const TlsIdentity> client = TlsIdentity::Load(TlsRole::kClient, authority.Client()).value();
  const std::shared_ptr<const TlsIdentity> server = TlsIdentity::Load(TlsRole::kServer, authority.Server()).value();
  const PemPair shown_by_client = SignCertificate(authority.pair(), TestAuthority::RequestOf("them", false)).value();
  const PemPair shown_by_server = SignCertificate(authority.pair(), TestAuthority::RequestOf("them", true)).value();
};

const Parties& TheParties() {
  static const Parties parties;
  return parties;
}

std::string More(const std::string& said, size_t bytes) {
  std::string words(std::min(bytes, kSaidMax - std::min(said.size(), kSaidMax)), '\0');
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<char>((said.size() + i) * 31 >> 3);
  return words;
}

void Add(const std::vector<std::byte>& more, std::vector<std::byte>* bytes) {
  bytes->insert(bytes->end(), more.begin(), more.end());
}

void Spoil(Reader& in, std::vector<std::byte>* bytes) {
  for (int changes = 0; changes < 8 && !in.empty(); ++changes) {
    const uint8_t kind = in.Take<uint8_t>() % kChangeKinds;
    const uint32_t where = in.Take<uint32_t>();
    const size_t length = in.Take<uint8_t>();
    if (bytes->empty()) return;
    const size_t at = where % bytes->size();
    const auto begin = bytes->begin() + static_cast<ptrdiff_t>(at);
    const auto end = begin + static_cast<ptrdiff_t>(std::min(length, bytes->size() - at));
    if (kind == kFlip) *begin ^= static_cast<std::byte>(1 << length % 8);
    if (kind == kDrop) bytes->erase(begin, end);
    if (kind == kRepeat) {
      const std::vector<std::byte> again(begin, end);
      bytes->insert(begin, again.begin(), again.end());
    }
    if (kind == kPut) {
      const std::span<const std::byte> put = in.Bytes(length % 64);
      bytes->insert(begin, put.begin(), put.end());
    }
    if (kind == kCutOff) bytes->resize(at);
    // Two neighbours change places: records, when they are as long.
    if (kind == kSwap) std::rotate(bytes->begin(), begin, bytes->end());
  }
}

struct Ends {
  explicit Ends(uint8_t sides)
      : peer(sides & kPeerIsServer ? *TheParties().client : *TheParties().server,
             sides & kPeerIsServer ? TheParties().shown_by_server : TheParties().shown_by_client, sides & kTickets ? 2 : 0) {
    static TcpListener& listener = *new TcpListener(TcpListener::Bind({"127.0.0.1", 0}, false).value());
    static TlsCrew& nobody = *new TlsCrew(0);
    near = ConnectTcpSocket(listener.address(), false, kNoDeadline - 1).value();
    far = AwaitConnection(listener).value();
    tuning = TuningOfTests();
    tuning.records_per_key = 3;
    if (!(sides & kCrew)) tuning.crew = &nobody;
    tuning.openssl = (sides & kOpensslHere) != 0;
  }
  std::unique_ptr<TlsBytes> Stream(const TlsSession& session) {
    std::unique_ptr<TcpStream> tcp = TcpStream::Make(std::move(far)).value();
    if (tuning.openssl) return std::make_unique<TlsOpensslStream>(std::move(tcp), session, tuning);
    return std::make_unique<TlsStream>(std::move(tcp), session, tuning);
  }

  MemoryTlsPeer peer;
  UniqueFd near, far;
  TlsTuning tuning;
};

void FromPeer(uint8_t sides, Reader in) {
  Ends ends(sides);
  SSL* ssl = ends.peer.ssl();
  TlsSession session = ends.peer.session();
  std::vector<std::byte> bytes = session.received;
  std::string said;
  bool goodbye = false;
  for (uint8_t step; !in.empty() && (step = in.Take<uint8_t>() % kSteps) != kChanges;) {
    const size_t number = in.Take<uint16_t>();
    if (goodbye) continue;
    if (step == kSay || step == kSayLong) {
      const std::string words = More(said, step == kSay ? number % 700 : number);
      if (!words.empty()) Add(ends.peer.Say(words), &bytes);
      said += words;
    }
    if (step == kNewKeys) SSL_key_update(ssl, number % 2 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
    if (step == kPadding) SSL_set_block_padding(ssl, number % 2000);
    if (step == kTicket && (sides & kPeerIsServer)) SSL_new_session_ticket(ssl);
    if (step == kGoodbye) {
      goodbye = SSL_shutdown(ssl) >= 0;  // not before keys that are to come
      Add(ends.peer.Said(), &bytes);
    }
  }
  const std::vector<std::byte> unchanged = bytes;
  Spoil(in, &bytes);
  // All but the last, for which there is room on the way, came with the handshake.
  const size_t first = bytes.size() - std::min<size_t>(bytes.size(), (bytes.size() * 7 + sides) % 4000);
  session.received.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(first));
  const std::span<const std::byte> rest = std::span(bytes).subspan(first);
  if (!rest.empty()) FUZZ_CHECK(send(ends.near.get(), rest.data(), rest.size(), 0) == static_cast<ssize_t>(rest.size()));
  shutdown(ends.near.get(), SHUT_WR);
  ends.near.reset();
  const std::unique_ptr<TlsBytes> stream = ends.Stream(session);
  // Fill() gives nothing of what it could not fill: what nobody changed comes whole, other things bit by bit.
  std::string got, some(said.size(), '\0');
  if (bytes == unchanged) {
    FUZZ_CHECK(stream->Fill(std::as_writable_bytes(std::span(some))).ok());
    got = some;
  }
  for (size_t bytes_now = 1; got.size() <= said.size(); bytes_now = bytes_now * 3 % 1000 + 1) {
    some.resize(bytes_now);
    if (!stream->Fill(std::as_writable_bytes(std::span(some))).ok()) break;
    got += some;
  }
  FUZZ_CHECK(got.size() <= said.size() && said.compare(0, got.size(), got) == 0);
  const bool in_order = stream->alert() == SSL_AD_CLOSE_NOTIFY;
  FUZZ_CHECK(bytes != unchanged || in_order == goodbye);
  FUZZ_CHECK(stream->alert() <= 0);
  FUZZ_CHECK(!in_order || goodbye);
  (void)stream->Send(std::as_bytes(std::span(some)), {}).ok();
}

void ToPeer(uint8_t sides, Reader in) {
  Ends ends(sides);
  TlsSession session = ends.peer.session();
  std::unique_ptr<TlsBytes> stream = ends.Stream(session);
  std::string said;
  for (uint8_t step; !in.empty() && (step = in.Take<uint8_t>() % kSteps) != kChanges;) {
    const std::string words = More(said, in.Take<uint16_t>() % (step == kSay ? 700 : 20'000));
    const size_t half = words.size() / 3;
    FUZZ_CHECK(stream->Send(std::as_bytes(std::span(words)).first(half), std::as_bytes(std::span(words)).subspan(half)).ok());
    said += words;
  }
  stream->Close();
  std::vector<std::byte> bytes, some(size_t{64} << 10);
  for (ssize_t got; (got = recv(ends.near.get(), some.data(), some.size(), 0)) != 0;) {
    if (got > 0) bytes.insert(bytes.end(), some.begin(), some.begin() + got);
    if (got < 0) FUZZ_CHECK(AwaitSocket(ends.near.get(), POLLIN, kNoDeadline).ok());
  }
  ends.near.reset();
  const std::vector<std::byte> unchanged = bytes;
  Spoil(in, &bytes);
  ends.peer.Hear(bytes);
  const std::string heard = ends.peer.Heard();
  FUZZ_CHECK(heard.size() <= said.size() && said.compare(0, heard.size(), heard) == 0);
  const bool in_order = (SSL_get_shutdown(ends.peer.ssl()) & SSL_RECEIVED_SHUTDOWN) != 0 && heard == said;
  FUZZ_CHECK(bytes != unchanged || in_order);
}

}  // namespace

void Run(std::span<const std::byte> input) {
  Reader in(input);
  const uint8_t sides = in.Take<uint8_t>();
  if (sides & kFromHere) {
    ToPeer(sides, in);
  } else {
    FromPeer(sides, in);
  }
  ERR_clear_error();
}

std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (int sides = 0; sides < 32; ++sides) {
    Writer writer;
    writer.Put(static_cast<uint8_t>(sides));
    const auto step = [&](Step kind, uint16_t number) { writer.Put<uint8_t>(kind).Put(number); };
    step(kSay, 10);
    step(kNewKeys, 1);
    step(kTicket, 0);
    step(kSayLong, 60'000);
    step(kPadding, 512);
    step(kNewKeys, 0);
    step(kSay, 600);
    step(kGoodbye, 0);
    seeds.push_back(writer.input());
    writer.Put<uint8_t>(kChanges);
    seeds.push_back(writer.input());
    for (uint8_t change = 0; change < kChangeKinds; ++change) {
      Writer more = writer;
      more.Put(change).Put(uint32_t{777} * (change + 1)).Put<uint8_t>(30);
      seeds.push_back(more.input());
    }
  }
  return seeds;
}

}  // namespace tessera::fuzz
