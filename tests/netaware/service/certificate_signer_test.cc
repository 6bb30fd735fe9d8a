#include "netaware/service/certificate_signer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "protocol/link/tls/tls_identity.h"

namespace tessera {
namespace {

constexpr time_t kDayS = 86'400;

class CertificateSignerTest : public testing::Test {
 protected:
  CertificateSignerTest()
      : now_(time(nullptr)),
        authority_(MakeAuthority("ours", now_ - kDayS, now_ + 30 * kDayS).value()),
        signer_(authority_, DescribeAuthority(authority_).value(), 7) {}

  PemPair Make(const CertificateRequest& request) { return SignCertificate(authority_, request).value(); }
  // A day old, with a day left.
  CertificateRequest Host() const {
    return {.name = "gpu7",
            .names = {"gpu7", "10.0.0.7"},
            .server = true,
            .client = true,
            .begins = now_ - kDayS,
            .ends = now_ + kDayS};
  }
  StatusCode Refusal(const CertificateDescription& shown, const std::string& request) {
    return signer_.Sign(shown, request, now_).status().code();
  }

  const time_t now_;
  const PemPair authority_;
  CertificateSigner signer_;
};

TEST_F(CertificateSignerTest, RenewsForTheSameNameHostsAndPurposes) {
  for (const bool server : {true, false}) {
    CertificateRequest host = Host();
    host.server = server;
    host.name = server ? "gpu7" : "alice";
    if (!server) host.names = {};
    const PemPair before = Make(host);
    const CertificateDescription shown = DescribeCertificateText(before.certificate).value();
    auto made = signer_.Sign(shown, MakeSigningRequest(before.key, host.name).value(), now_);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const CertificateDescription now = DescribeCertificateText(made->certificate).value();
    EXPECT_EQ(now.name, shown.name);
    EXPECT_EQ(now.names, shown.names);
    EXPECT_EQ(now.for_servers, server);
    EXPECT_TRUE(now.for_clients);
    EXPECT_FALSE(now.authority);
    EXPECT_EQ(now.issuer_key_id, shown.issuer_key_id);
    EXPECT_EQ(now.ends, now_ + 7 * kDayS);
    EXPECT_EQ(now.serial, made->serial);
    EXPECT_NE(now.serial, shown.serial);
    // It is of the key that is there, and of the authority.
    KeyTexts texts;
    texts.certificate = made->certificate;
    texts.key = before.key;
    texts.authority = authority_.certificate;
    EXPECT_TRUE(TlsIdentity::Make(TlsRole::kClient, {}, texts).ok());
    // Again at once, while the present certificate is valid for as long: nothing.
    EXPECT_EQ(Refusal(shown, MakeSigningRequest(before.key, host.name).value()), StatusCode::kResourceExhausted);
    const std::string again = MakeSigningRequest(before.key, host.name).value();
    EXPECT_EQ(signer_.Sign(now, again, now_ + 3'600).status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(signer_.Sign(now, again, now_ + kDayS).status().code(), StatusCode::kOk);
  }
}

TEST_F(CertificateSignerTest, RefusesAnotherNameAnotherAuthorityAndWhatHasExpired) {
  const PemPair host = Make(Host());
  const CertificateDescription shown = DescribeCertificateText(host.certificate).value();
  const std::string request = MakeSigningRequest(host.key, "gpu7").value();
  const auto other = signer_.Sign(shown, MakeSigningRequest(host.key, "gpu8").value(), now_);
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(other.status().message().find("is for 'gpu8', and not for 'gpu7'"), std::string::npos) << other.status().message();
  EXPECT_EQ(signer_.Sign(shown, request, shown.ends).status().code(), StatusCode::kPermissionDenied);
  // An authority of the same name, with another key.
  const PemPair others = MakeAuthority("ours", now_ - kDayS, now_ + 30 * kDayS).value();
  const PemPair foreign = SignCertificate(others, Host()).value();
  EXPECT_EQ(Refusal(DescribeCertificateText(foreign.certificate).value(), request), StatusCode::kPermissionDenied);
  EXPECT_EQ(Refusal(DescribeCertificateText(authority_.certificate).value(), request), StatusCode::kPermissionDenied);
}

TEST_F(CertificateSignerTest, RefusesWhatIsNoRequest) {
  const PemPair host = Make(Host());
  const CertificateDescription shown = DescribeCertificateText(host.certificate).value();
  const std::string request = MakeSigningRequest(host.key, "gpu7").value();
  time_t now = now_;
  const auto refuse = [&](const std::string& text) {
    now += CertificateSigner::kAgainS;
    return signer_.Sign(shown, text, now).status().code();
  };
  EXPECT_EQ(refuse(""), StatusCode::kInvalidArgument);
  EXPECT_EQ(refuse(host.certificate), StatusCode::kInvalidArgument);
  EXPECT_EQ(refuse(std::string(CertificateSigner::kRequestBytesMax + 1, 'x')), StatusCode::kInvalidArgument);
  for (size_t bytes = 0; bytes < request.size() - 40; bytes += 7)
    EXPECT_EQ(refuse(request.substr(0, bytes)), StatusCode::kInvalidArgument) << bytes;
  // Its signature is another key's: the last letters but those that fill up.
  std::string changed = request;
  const size_t at = changed.find("-----END") - 12;
  changed[at] = changed[at] == 'A' ? 'B' : 'A';
  EXPECT_EQ(refuse(changed), StatusCode::kInvalidArgument);
  EXPECT_EQ(refuse(request), StatusCode::kOk);
}

TEST_F(CertificateSignerTest, IsOpenedWithAnAuthorityThatNobodyElseCanRead) {
  const std::string place = testing::TempDir() + "signer";
  std::filesystem::remove_all(place);
  std::filesystem::create_directory(place);
  const auto why = [&] { return CertificateSigner::Open(place, 7).status().message(); };
  EXPECT_NE(why().find("--sign-with takes the directory"), std::string::npos) << why();
  std::ofstream(place + "/authority.pem") << authority_.certificate;
  std::ofstream(place + "/authority-key.pem") << authority_.key;
  ASSERT_EQ(chmod((place + "/authority-key.pem").c_str(), 0644), 0);
  EXPECT_NE(why().find("can be read by others: chmod 600"), std::string::npos) << why();
  ASSERT_EQ(chmod((place + "/authority-key.pem").c_str(), 0600), 0);
  EXPECT_EQ(why(), "");
  std::ofstream(place + "/authority-key.pem") << Make(Host()).key;
  EXPECT_NE(why().find("these files are no authority's"), std::string::npos) << why();
  const PemPair old = MakeAuthority("old", now_ - 2 * kDayS, now_ - kDayS).value();
  std::ofstream(place + "/authority.pem") << old.certificate;
  std::ofstream(place + "/authority-key.pem") << old.key;
  EXPECT_NE(why().find("has expired"), std::string::npos) << why();
}

}  // namespace
}  // namespace tessera
