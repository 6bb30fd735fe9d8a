// Records against what others say of them: the published traces of TLS 1.3 (RFC 8448), and OpenSSL's derivation of keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/link/tls/tls_records.h"

namespace tessera {
namespace {

constexpr TlsSuite kSuiteOfTraces = {EVP_sha256, EVP_aes_128_gcm, 16, 32};  // TLS_AES_128_GCM_SHA256

std::vector<std::byte> FromHex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(at, 2)), nullptr, 16)));
  return bytes;
}

TlsSecret SecretOf(std::string_view hex) {
  TlsSecret secret;
  const std::vector<std::byte> bytes = FromHex(hex);
  std::ranges::transform(bytes, secret.bytes.begin(), [](std::byte one) { return static_cast<uint8_t>(one); });
  return secret;
}

// Of section 3, "Simple 1-RTT Handshake".
constexpr const char* kClientHandshake = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21";
constexpr const char* kClientTraffic = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
constexpr const char* kServerTraffic = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";

struct Traced {
  TlsContent content;
  std::string plain;
  std::string record;
};

std::string CountedPayload() {
  std::string hex;
  for (const char tens : {'0', '1', '2'}) {
    for (const char ones : std::string_view("0123456789abcdef")) hex += {tens, ones};
  }
  return hex + "3031";
}

// In the order of their numbers.
std::vector<Traced> OfClient() {
  return {{TlsContent::kData, CountedPayload(),
           "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a29770"
           "14bd1e3deae63aeebb21694915e4"},
          {TlsContent::kAlert, "0100", "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3"}};
}
std::vector<Traced> OfServer() {
  return {{TlsContent::kHandshake,  // a ticket
           "040000c90000001efad6aac502000000b22c035d829359ee5ff7af4ec900000000262a6494dc486d2c8a34cb33fa90bf1b0070ad3c498883c936"
           "7c09a2be785abc55cd226097a3a982117283f82a03a143efd3ff5dd36d64e861be7fd61d2827db279cce145077d454a3664d4e6da4d29ee03725"
           "a6a4dafcd0fc67d2aea70529513e3da2677fa5906c5b3f7d8f92f228bda40dda721470f9fbf297b5aea617646fac5c03272e970727c621a79141"
           "ef5f7de6505e5bfbc388e93343694093934ae4d3570008002a000400000400",
           "17030300de3a6b8f90414a97d6959c3487680de5134a2b240e6cffac116e95d41d6af8f6b580dcf3d11d63c758db289a015940252f55713e061d"
           "c13e078891a38efbcf5753ad8ef170ad3c7353d16d9da773b9ca7f2b9fa1b6c0d4a3d03f75e09c30ba1e62972ac46f75f7b981be63439b2999ce"
           "13064615139891d5e4c5b406f16e3fc181a77ca475840025db2f0a77f81b5ab05b94c01346755f69232c86519d86cbeeac87aac347d143f9605d"
           "64f650db4d023e70e952ca49fe5137121c74bc2697687e248746d6df353005f3bce18696129c8153556b3b6c6779b37bf15985684f"},
          {TlsContent::kData, CountedPayload(),
           "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8fcc49c4bf2e5f0a21c00"
           "47c2abf332540dd032e167c2955d"},
          {TlsContent::kAlert, "0100", "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9"}};
}

void ExpectTrace(const char* secret, const std::vector<Traced>& trace) {
  TlsKeys sealing(SecretOf(secret), 1, kSuiteOfTraces), opening(SecretOf(secret), 1, kSuiteOfTraces);
  for (const Traced& traced : trace) {
    const std::vector<std::byte> plain = FromHex(traced.plain), record = FromHex(traced.record);
    std::vector<std::byte> sealed(plain.size() + kTlsOverheadBytes);
    EXPECT_EQ(sealing.Seal(traced.content, plain, {}, sealed.data()), record.size());
    EXPECT_EQ(sealed, record);
    std::vector<std::byte> opened(TlsKeys::PlainRoom(record));
    EXPECT_EQ(TlsRecordBytes(record).value(), record.size());
    Result<TlsKeys::Opened> got = opening.Open(record, opened.data());
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(got->content, traced.content);
    EXPECT_EQ(opened, plain);
  }
}

TEST(TlsTraces, TheRecordsOfTheClient) { ExpectTrace(kClientTraffic, OfClient()); }
TEST(TlsTraces, TheRecordsOfTheServer) { ExpectTrace(kServerTraffic, OfServer()); }

TEST(TlsTraces, ThePartOfTheHandshakeThatIsProtected) {
  ExpectTrace(kClientHandshake,
              {{TlsContent::kHandshake, "14000020a8ec436d677634ae525ac1fcebe11a039ec17694fac6e98527b642f2edd5ce61",
                "170303003575ec4dc238cce60b298044a71e219c56cc77b0517fe9b93c7a4bfc44d87f38f80338ac98fc46deb384bd1caeacab6867d726c4"
                "0546"}});
}

TEST(TlsTraces, ARecordOutOfItsPlaceDoesNotOpen) {
  TlsKeys keys(SecretOf(kServerTraffic), 1, kSuiteOfTraces);
  const std::vector<std::byte> record = FromHex(OfServer()[1].record);
  std::vector<std::byte> plain(TlsKeys::PlainRoom(record));
  EXPECT_FALSE(keys.Open(record, plain.data()).ok());
}

// --- keys, as OpenSSL derives them: of our suite, and new ones, which are in no trace ---

std::vector<uint8_t> ByOpenssl(const std::vector<uint8_t>& secret, std::string label, size_t bytes) {
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "TLS13-KDF", nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  std::string hash = "SHA384", prefix = "tls13 ";
  const OSSL_PARAM words[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<uint8_t*>(secret.data()), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix.data(), prefix.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, label.data(), label.size()),
      OSSL_PARAM_construct_end()};
  std::vector<uint8_t> result(bytes);
  EXPECT_EQ(EVP_KDF_derive(context, result.data(), result.size(), words), 1);
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return result;
}

// A record of one byte of data under these keys, whose number is 0.
std::vector<std::byte> SealByOpenssl(const std::vector<uint8_t>& key, const std::vector<uint8_t>& iv, uint8_t plain) {
  const uint8_t inside[2] = {plain, 23};
  std::vector<std::byte> record = FromHex("1703030012");
  record.resize(kTlsHeaderBytes + sizeof(inside) + kTlsTagBytes);
  auto* bytes = reinterpret_cast<uint8_t*>(record.data());
  const CipherPtr cipher(EVP_CIPHER_CTX_new());
  int written = 0;
  EXPECT_EQ(EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(), iv.data()), 1);
  EXPECT_EQ(EVP_EncryptUpdate(cipher.get(), nullptr, &written, bytes, kTlsHeaderBytes), 1);
  EXPECT_EQ(EVP_EncryptUpdate(cipher.get(), bytes + kTlsHeaderBytes, &written, inside, sizeof(inside)), 1);
  EXPECT_EQ(EVP_EncryptFinal_ex(cipher.get(), bytes + kTlsHeaderBytes, &written), 1);
  EXPECT_EQ(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, kTlsTagBytes, bytes + kTlsHeaderBytes + sizeof(inside)), 1);
  return record;
}

TEST(TlsTraces, EveryGenerationOfKeysIsAsOpensslDerivesIt) {
  TlsSecret ours;
  for (size_t i = 0; i < TlsSecret::kBytes; ++i) ours.bytes[i] = static_cast<uint8_t>(3 * i + 1);
  std::vector<uint8_t> secret(ours.bytes.begin(), ours.bytes.end());
  TlsKeys keys(ours);
  for (uint8_t generation = 0; generation < 5; ++generation) {
    const std::vector<std::byte> record = SealByOpenssl(ByOpenssl(secret, "key", 32), ByOpenssl(secret, "iv", 12), generation);
    std::vector<std::byte> plain(TlsKeys::PlainRoom(record));
    ASSERT_TRUE(keys.Open(record, plain.data()).ok()) << int{generation};
    EXPECT_EQ(plain[0], static_cast<std::byte>(generation));
    keys.Update();
    secret = ByOpenssl(secret, "traffic upd", TlsSecret::kBytes);
  }
}

}  // namespace
}  // namespace tessera
