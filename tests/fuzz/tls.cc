// What the TLS link reads of a peer that has shown nothing yet, and of one that has.
// Input: u8 mode, then for
//   0  a client's side of a handshake, to a gateway
//   1  a gateway's side of a handshake, to a client that has begun one
//   2  records as they come
//   3  contents of records, which are sealed here: u8 content, u16 bytes, the bytes
//   4  a certificate (DER), as a peer shows it
// Seeds have keys in them, which are new in every run.
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "protocol/base/small_file.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_openssl.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/fuzz/target.h"
#include "tests/support/tls_pair.h"

namespace tessera::fuzz {
namespace {

enum Mode : uint8_t { kToGateway, kToClient, kRecords, kContents, kCertificate };
constexpr uint8_t kModes = 5;

struct Parties {
  const TestAuthority authority;
  const LinkAddress address = {"localhost", 1, LinkScheme::kTls};
  const std::shared_ptr<const TlsIdentity> client = TlsIdentity::Load(TlsRole::kClient, authority.Client()).value();
  const std::shared_ptr<const TlsIdentity> server = TlsIdentity::Load(TlsRole::kServer, authority.Server()).value();
  TlsParties near() const { return {*client, &address}; }
  TlsParties far() const { return {*server, nullptr}; }
};

const Parties& TheParties() {
  static const Parties parties;
  return parties;
}

void ShakeHandsWith(const TlsParties& parties, std::span<const std::byte> bytes) {
  TlsHandshake handshake(parties);
  FUZZ_CHECK(handshake.Take({}).ok());
  const size_t half = bytes.size() / 2;
  if (handshake.Take(bytes.first(half)).ok()) (void)handshake.Take(bytes.subspan(half)).ok();
  FUZZ_CHECK(!handshake.done());
  (void)handshake.Outgoing();
}

TlsSession Session() {
  TlsSession session;
  session.sending.bytes.fill(1);
  session.receiving.bytes.fill(1);
  return session;
}

// A stream that has received all of `bytes` with its handshake, and whose other end has gone.
void ReceiveAll(std::span<const std::byte> bytes) {
  static TcpListener& listener = *new TcpListener(TcpListener::Bind({"127.0.0.1", 0}, false).value());
  UniqueFd near = ConnectTcpSocket(listener.address(), false, kNoDeadline - 1).value();
  UniqueFd far = AwaitConnection(listener).value();
  near.reset();
  TlsSession session = Session();
  session.received.assign(bytes.begin(), bytes.end());
  TlsStream stream(TcpStream::Make(std::move(far)).value(), session, TuningOfTests());
  std::vector<std::byte> some(1000);
  size_t got = 0;
  while (stream.Fill(std::span(some).first(1 + got % some.size())).ok()) ++got;
  FUZZ_CHECK(got <= bytes.size());
  (void)stream.Send(some, some).ok();
}

void SealAndReceive(Reader in) {
  TlsKeys keys(Session().sending);
  std::vector<std::byte> records;
  while (!in.empty() && records.size() < (size_t{64} << 10)) {
    const auto content = static_cast<TlsContent>(in.Take<uint8_t>());
    const std::span<const std::byte> bytes = in.Bytes(in.Take<uint16_t>() % (kTlsPlainBytesMax + 1));
    const size_t at = records.size();
    records.resize(at + bytes.size() + kTlsOverheadBytes);
    keys.Seal(content, bytes, {}, records.data() + at);
    constexpr std::byte kKeyUpdate{24};
    if (content == TlsContent::kHandshake && bytes.size() == 5 && bytes[0] == kKeyUpdate) keys.Update();
  }
  ReceiveAll(records);
}

void Describe(std::span<const std::byte> der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const CertificatePtr certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  OpensslWords();
  if (certificate == nullptr) return;
  const CertificateDescription description = DescribeCertificate(*certificate);
  const Parties& parties = TheParties();
  for (const int error : {X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_HOSTNAME_MISMATCH,
                          X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_INVALID_CA}) {
    FUZZ_CHECK(DescribeRefusedCertificate(parties.near(), error, description, description).message().find('\n') ==
               std::string::npos);
  }
  (void)parties.server->Allows(description);
}

}  // namespace

void Run(std::span<const std::byte> input) {
  Reader in(input);
  const uint8_t mode = in.Take<uint8_t>() % kModes;
  const Parties& parties = TheParties();
  if (mode == kToGateway) ShakeHandsWith(parties.far(), in.Rest());
  if (mode == kToClient) ShakeHandsWith(parties.near(), in.Rest());
  if (mode == kRecords) ReceiveAll(in.Rest());
  if (mode == kContents) SealAndReceive(in);
  if (mode == kCertificate) Describe(in.Rest());
}

std::vector<Input> Seeds() {
  const Parties& parties = TheParties();
  const auto seed = [](Mode mode, std::span<const std::byte> bytes) { return Writer().Put<uint8_t>(mode).Bytes(bytes).input(); };
  TlsHandshake client(parties.near()), server(parties.far());
  FUZZ_CHECK(client.Take({}).ok());
  const std::vector<std::byte> hello = client.Outgoing();
  FUZZ_CHECK(server.Take(hello).ok());
  std::vector<Input> seeds = {seed(kToGateway, hello), seed(kToClient, server.Outgoing())};

  TlsKeys keys(Session().sending);
  const std::vector<std::byte> plain(100, std::byte{5});
  std::vector<std::byte> records(2 * (plain.size() + kTlsOverheadBytes));
  const size_t first = keys.Seal(TlsContent::kData, plain, {}, records.data());
  keys.Seal(TlsContent::kData, plain, {}, records.data() + first);
  seeds.push_back(seed(kRecords, records));

  Writer contents;
  contents.Put<uint8_t>(kContents);
  const auto put = [&](TlsContent content, const std::vector<uint8_t>& bytes) {
    contents.Put(static_cast<uint8_t>(content)).Put(static_cast<uint16_t>(bytes.size())).Bytes(std::as_bytes(std::span(bytes)));
  };
  put(TlsContent::kData, {1, 2, 3});
  put(TlsContent::kHandshake, {24, 0, 0, 1, 1});
  put(TlsContent::kNone, {1, 2, 23, 0, 0});
  put(TlsContent::kData, {});
  put(TlsContent::kAlert, {1, 0});
  seeds.push_back(contents.input());

  Result<std::string> pem = ReadSmallFile(parties.server->files().certificate, kPemBytesMax);
  const CertificatePtr certificate(PEM_read_bio_X509(ReadFrom(*pem).get(), nullptr, nullptr, nullptr));
  unsigned char* der = nullptr;
  const int bytes = i2d_X509(certificate.get(), &der);
  seeds.push_back(seed(kCertificate, std::as_bytes(std::span(der, static_cast<size_t>(bytes)))));
  OPENSSL_free(der);
  return seeds;
}

}  // namespace tessera::fuzz
