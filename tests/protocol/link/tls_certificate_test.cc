// Who may talk to whom over TLS: certificates that are not what they should be, and what both sides say of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/small_file.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_link.h"
#include "protocol/link/tls/tls_words.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_pair.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TlsCertificate : public testing::Test {
 protected:
  TlsCertificate() { signal(SIGPIPE, SIG_IGN); }  // as RelayService does

  PemPair Signed(const CertificateRequest& request) const {
    Result<PemPair> made = SignCertificate(authority_.pair(), request);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
  static CertificateRequest Shifted(CertificateRequest request, time_t by) {
    request.begins += by;
    request.ends += by;
    return request;
  }

  // What ConnectTls() says of a gateway that shows `shown`. `*alert`: what that one hears.
  Status ConnectToOneThatShows(const PemPair& shown, int* alert, int version_max = TLS1_3_VERSION) {
    Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
    std::thread serving([&] {
      RawTlsPeer peer(AwaitConnection(*listener).value(), true, shown, version_max);
      peer.ShakeHands() && !peer.Receive(16 + 1).empty();
      *alert = peer.alert();
    });
    const Status status =
        ConnectTls({"127.0.0.1", listener->address().port, LinkScheme::kTls}, authority_.Client(), Soon()).status();
    serving.join();
    return status;
  }
  // What AcceptTls() says of a client that shows `shown`.
  Status AcceptOneThatShows(const PemPair& shown, int* alert, int version_max = TLS1_3_VERSION) {
    Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
    UniqueFd socket = ConnectTcpSocket(listener->address(), false, Soon()).value();
    std::thread connecting([&] {
      RawTlsPeer peer(std::move(socket), false, shown, version_max);
      peer.ShakeHands() && !peer.Receive(1).empty();
      *alert = peer.alert();
    });
    std::shared_ptr<const TlsIdentity> identity = TlsIdentity::Load(TlsRole::kServer, authority_.Server()).value();
    const Status status = AcceptTls(AwaitConnection(*listener).value(), *identity, Soon()).status();
    connecting.join();
    return status;
  }

  const TestAuthority authority_;
};

TEST_F(TlsCertificate, EveryBadOneHasItsSentenceOnTheSideThatSeesIt) {
  const CertificateRequest good = TestAuthority::RequestOf("bob", true);
  CertificateRequest elsewhere = good;
  elsewhere.names = {"other.example", "10.1.2.3"};
  const TestAuthority stranger("Strangers");
  const TestAuthority impostor;  // of the same name as ours
  const auto both = [](CertificateRequest request) {
    request.server = request.client = true;
    return request;
  };
  const struct {
    const char* what;
    PemPair shown;
    std::vector<const char*> sentence;
    int alert;
    bool of_servers_only = false;
  } kRows[] = {
      {"expired", Signed(both(Shifted(good, -2 * kHourS))), {"'bob'", "has expired", "tessera keys"}, SSL_AD_CERTIFICATE_EXPIRED},
      {"of the future", Signed(both(Shifted(good, 2 * kHourS))), {"'bob'", "not valid before", "clocks"}, SSL_AD_BAD_CERTIFICATE},
      {"of another authority",
       SignCertificate(stranger.pair(), both(good)).value(),
       {"'bob'", "'Strangers'", "authority.pem does not have"},
       SSL_AD_UNKNOWN_CA},
      {"of an authority of the same name",
       SignCertificate(impostor.pair(), both(good)).value(),
       {"'bob'", "'Test authority' (key ", "authority.pem does not have (it has 'Test authority' (key "},
       SSL_AD_UNKNOWN_CA},
      {"self-signed", stranger.pair(), {"'Strangers'", "authority.pem does not have"}, SSL_AD_UNKNOWN_CA},
      {"for another host",
       Signed(both(elsewhere)),
       {"is for other.example, 10.1.2.3 and not for 127.0.0.1", "tessera keys server 127.0.0.1"},
       SSL_AD_BAD_CERTIFICATE,
       true},
  };
  for (const auto& row : kRows) {
    for (const bool server : {true, false}) {
      if (!server && row.of_servers_only) continue;
      SCOPED_TRACE(std::string(row.what) + (server ? ", a gateway's" : ", a client's"));
      int alert = -1;
      const Status status = server ? ConnectToOneThatShows(row.shown, &alert) : AcceptOneThatShows(row.shown, &alert);
      EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status.message();
      for (const char* part : row.sentence) EXPECT_THAT(status.message(), HasSubstr(part));
      EXPECT_THAT(status.message(), HasSubstr(server ? "the gateway at tls://127.0.0.1:" : "the peer"));
      EXPECT_EQ(alert, row.alert);
    }
  }
}

TEST_F(TlsCertificate, NamesOfStrangersStandInNoCommand) {
  CertificateRequest request = TestAuthority::RequestOf("$(reboot) `x`; y", false);
  request.server = true;
  request.client = false;
  int alert = -1;
  const std::string sentence = AcceptOneThatShows(Signed(request), &alert).message();
  EXPECT_THAT(sentence,
              AllOf(HasSubstr("'$(reboot) `x`; y' of the peer"), HasSubstr("make one with 'tessera keys client NAME'")));
}

TEST_F(TlsCertificate, OneForTheOtherSideIsRefused) {
  int alert = -1;
  Status status = ConnectToOneThatShows(Signed(TestAuthority::RequestOf("bob", false)), &alert);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("not one for servers"), HasSubstr("tessera keys server bob")));
  EXPECT_EQ(alert, SSL_AD_UNSUPPORTED_CERTIFICATE);
  status = AcceptOneThatShows(Signed(TestAuthority::RequestOf("bob", true)), &alert);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("not one for clients"), HasSubstr("tessera keys client bob")));
}

TEST_F(TlsCertificate, AClientWithoutOneIsRefused) {
  int alert = -1;
  const Status status = AcceptOneThatShows({}, &alert);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("shown no certificate"), HasSubstr("tessera keys client")));
  EXPECT_EQ(alert, SSL_AD_CERTIFICATE_REQUIRED);
}

TEST_F(TlsCertificate, AnOlderTlsIsRefused) {
  int alert = -1;
  Status status = AcceptOneThatShows(Signed(TestAuthority::RequestOf("bob", false)), &alert, TLS1_2_VERSION);
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(status.message(), HasSubstr("speaks no TLS 1.3"));
  EXPECT_EQ(alert, SSL_AD_PROTOCOL_VERSION);
  status = ConnectToOneThatShows(Signed(TestAuthority::RequestOf("bob", true)), &alert, TLS1_2_VERSION);
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(status.message(), HasSubstr("speaks no TLS 1.3"));
}

TEST_F(TlsCertificate, BothSidesHearOfIt) {
  const TestAuthority stranger("Strangers");
  LinkOptions strange_client = stranger.Client("mallory");
  strange_client.keys.authority = authority_.path();
  TlsMeeting meeting = MeetOverTls(strange_client, authority_.Server());
  EXPECT_THAT(meeting.far.status().message(), HasSubstr("'mallory' of the peer was signed by 'Strangers'"));
  EXPECT_EQ(meeting.near.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(meeting.near.status().message(),
              AllOf(HasSubstr("does not accept the certificate"), HasSubstr("its authority 'Strangers' (key "),
                    HasSubstr(") is not known there")));

  LinkOptions strange_server = stranger.Server("gpu8");
  strange_server.keys.authority = authority_.path();
  meeting = MeetOverTls(authority_.Client(), strange_server);
  EXPECT_THAT(meeting.near.status().message(), HasSubstr("'gpu8' of the gateway at tls://127.0.0.1:"));
  EXPECT_THAT(meeting.far.status().message(),
              AllOf(HasSubstr("the peer does not accept"), HasSubstr("its authority 'Strangers' (key ")));

  CertificateRequest elsewhere = TestAuthority::RequestOf("gpu8", true);
  elsewhere.names = {"gpu8.example"};
  meeting = MeetOverTls(authority_.Client(), authority_.Sign(elsewhere));
  EXPECT_THAT(meeting.near.status().message(), HasSubstr("is for gpu8.example and not for 127.0.0.1"));
  EXPECT_THAT(meeting.far.status().message(), HasSubstr("it is for gpu8.example, and the peer wrote another name"));
}

TEST_F(TlsCertificate, NamesOfTheAddressAreLookedFor) {
  for (const char* host : {"localhost", "127.0.0.1"}) {
    TlsMeeting meeting = MeetOverTls(authority_.Client("alice"), authority_.Server(), host);
    EXPECT_TRUE(meeting.near.ok()) << host << ": " << meeting.near.status().message();
    ASSERT_TRUE(meeting.far.ok()) << meeting.far.status().message();
    EXPECT_THAT(meeting.far->peer, testing::MatchesRegex("alice \\(127\\.0\\.0\\.1:[0-9]+\\)"));
  }
}

TEST_F(TlsCertificate, OnlyAllowedNamesConnect) {
  LinkOptions server = authority_.Server();
  server.allow = {"alice", "carol"};
  EXPECT_TRUE(MeetOverTls(authority_.Client("alice"), server).near.ok());
  TlsMeeting meeting = MeetOverTls(authority_.Client("mallory"), server);
  EXPECT_EQ(meeting.far.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(meeting.far.status().message(), AllOf(HasSubstr("'mallory' is not allowed"), HasSubstr("--allow mallory")));
  EXPECT_EQ(meeting.near.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(meeting.near.status().message(), AllOf(HasSubstr("does not allow 'mallory'"), HasSubstr("--allow mallory")));
  CertificateRequest dave = TestAuthority::RequestOf("dave", false);
  dave.names = {"carol"};
  EXPECT_TRUE(MeetOverTls(authority_.Sign(dave), server).near.ok());
  server.allow.clear();
  server.allow_file = authority_.Write("allowed", "# people\n\n  erin # of the other team\r\n");
  EXPECT_TRUE(MeetOverTls(authority_.Client("erin"), server).near.ok());
  EXPECT_FALSE(MeetOverTls(authority_.Client("alice"), server).near.ok());
  server.allow_file = authority_.Write("allowed", "");  // nobody
  EXPECT_FALSE(MeetOverTls(authority_.Client("erin"), server).near.ok());
}

TEST_F(TlsCertificate, EveryAlertHasItsSentence) {
  const auto client = TlsIdentity::Load(TlsRole::kClient, authority_.Client()).value();
  const auto server = TlsIdentity::Load(TlsRole::kServer, authority_.Server()).value();
  const LinkAddress address = {"gpu7", 4180, LinkScheme::kTls};
  const TlsParties near = {*client, &address};
  const TlsParties far = {*server, nullptr};
  const struct {
    int alert;
    const char* to_client;
    const char* to_server;
  } kRows[] = {{SSL_AD_CERTIFICATE_EXPIRED, "it has expired", "it has expired"},
               {SSL_AD_BAD_CERTIFICATE, "by the clock there", "wrote another name"},
               {SSL_AD_UNKNOWN_CA, "its authority 'Test authority' (key ", "its authority 'Test authority' (key "},
               {SSL_AD_UNSUPPORTED_CERTIFICATE, "not one for clients", "not one for servers"},
               {SSL_AD_CERTIFICATE_REQUIRED, "wants to see a certificate", "wants to see a certificate"},
               {SSL_AD_ACCESS_DENIED, "does not allow 'alice'", "does not allow 'gpu7'"},
               {SSL_AD_PROTOCOL_VERSION, "speaks no TLS 1.3", "speaks no TLS 1.3"},
               {SSL_AD_INTERNAL_ERROR, "TLS alert 80", "TLS alert 80"}};
  for (const auto& row : kRows) {
    EXPECT_THAT(DescribeAlert(near, row.alert).message(),
                AllOf(HasSubstr("the gateway at tls://gpu7:4180"), HasSubstr(row.to_client)));
    EXPECT_THAT(DescribeAlert(far, row.alert).message(), AllOf(HasSubstr("the peer"), HasSubstr(row.to_server)));
  }
  for (int alert = 0; alert < 256; ++alert) EXPECT_FALSE(DescribeAlert(near, alert).message().empty());
}

// --- files ---

TEST_F(TlsCertificate, FilesThatCannotBeUsedSaySo) {
  const LinkOptions good = authority_.Client();
  const LinkOptions other = authority_.Client("carol");
  const auto refused = [](const LinkOptions& options, TlsRole role = TlsRole::kClient) {
    const Status status = TlsIdentity::Load(role, options).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    return status.message();
  };
  LinkOptions options = good;
  options.keys.certificate = "/nonexistent/certificate.pem";
  EXPECT_THAT(refused(options), AllOf(HasSubstr("no certificate at /nonexistent/certificate.pem"),
                                      HasSubstr("tessera keys client"), HasSubstr("--certificate")));
  options = good;
  options.keys.key = other.keys.key;
  EXPECT_THAT(refused(options), HasSubstr("is not that of the certificate"));
  options = good;
  options.keys.key = good.keys.certificate;
  EXPECT_THAT(refused(options), HasSubstr("holds no private key"));
  options = good;
  options.keys.certificate = good.keys.key;
  EXPECT_THAT(refused(options), HasSubstr("holds no certificate"));
  options = good;
  options.keys.authority = good.keys.certificate;
  EXPECT_THAT(refused(options), HasSubstr("not that of an authority"));
  options.keys.authority = "/";
  EXPECT_THAT(refused(options), HasSubstr("no ordinary file"));
  EXPECT_THAT(refused(good, TlsRole::kServer), HasSubstr("not one for servers"));
  EXPECT_THAT(refused(authority_.Sign(Shifted(TestAuthority::RequestOf("old", false), -2 * kHourS))), HasSubstr("has expired"));
  EXPECT_THAT(refused(authority_.Sign(Shifted(TestAuthority::RequestOf("new", false), 2 * kHourS))),
              HasSubstr("not valid before"));
  for (const mode_t mode : {0640, 0604, 0620}) {
    chmod(good.keys.key.c_str(), mode);
    EXPECT_THAT(refused(good), AllOf(HasSubstr("can be read by others"), HasSubstr("chmod 600 " + good.keys.key)));
  }
  chmod(good.keys.key.c_str(), 0600);
  chmod(authority_.path().c_str(), 0664);
  EXPECT_THAT(refused(good), HasSubstr("can be changed by others"));
  chmod(authority_.path().c_str(), 0644);
  EXPECT_TRUE(TlsIdentity::Load(TlsRole::kClient, good).ok());
}

TEST_F(TlsCertificate, FilesAreWhereTheOptionTheEnvironmentOrTheDirectorySay) {
  setenv("XDG_CONFIG_HOME", "/config", 1);
  setenv("TESSERA_KEY", "/elsewhere/key", 1);
  const KeyFiles files = LocateKeyFiles(TlsRole::kClient, {.certificate = "mine", .key = "", .authority = ""});
  EXPECT_EQ(files.certificate, "mine");
  EXPECT_EQ(files.key, "/elsewhere/key");
  EXPECT_EQ(files.authority, "/config/tessera/authority.pem");
  unsetenv("TESSERA_KEY");
  EXPECT_EQ(LocateKeyFiles(TlsRole::kServer, {}).key, geteuid() == 0 ? "/etc/tessera/key.pem" : "/config/tessera/key.pem");
  unsetenv("XDG_CONFIG_HOME");
}

TEST_F(TlsCertificate, ChangedFilesAreReadAgain) {
  LinkOptions options = authority_.Server();
  std::unique_ptr<TlsIdentityKeeper> keeper = TlsIdentityKeeper::Make(TlsRole::kServer, options).value();
  const auto before = keeper->Current();
  EXPECT_EQ(keeper->Current(), before);
  const PemPair next = Signed(TestAuthority::RequestOf("gpu7-next", true));
  authority_.Write("gpu7.key", next.key);  // does not fit yet
  EXPECT_EQ(keeper->Current(), before);
  authority_.Write("gpu7.pem", next.certificate);
  EXPECT_EQ(keeper->Current()->own().name, "gpu7-next");
  std::filesystem::remove(options.keys.certificate);
  EXPECT_EQ(keeper->Current()->own().name, "gpu7-next");
}

// Hundreds of strangers a second must not each have a look of their own that the clients behind them wait for.
TEST_F(TlsCertificate, ManyWhoAskAtOnceWaitForOneLook) {
  constexpr int kThreads = 16;
  std::atomic<int> opened{0}, asking{0};
  std::atomic<bool> is_slow{false};
  LinkOptions options = authority_.Server();
  options.open_file = [&](const std::string& path) {
    ++opened;
    while (is_slow.load()) usleep(1000);
    return OpenSmallFile(path);
  };
  std::unique_ptr<TlsIdentityKeeper> keeper = TlsIdentityKeeper::Make(TlsRole::kServer, options).value();
  opened = 0;
  keeper->Current();
  const int of_one_look = opened.exchange(0);
  ASSERT_GT(of_one_look, 0);
  is_slow = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++asking;
      EXPECT_NE(keeper->Current(), nullptr);
    });
  }
  while (asking.load() != kThreads) usleep(1000);
  usleep(100'000);  // so that most have asked
  is_slow = false;
  for (std::thread& thread : threads) thread.join();
  // The first look, one for those who asked during it, and a few for who began late.
  EXPECT_LE(opened.load(), kThreads / 2 * of_one_look);
}

TEST_F(TlsCertificate, NamesThatCannotBeAreNotSigned) {
  CertificateRequest request = TestAuthority::RequestOf("bob", true);
  for (const char* name : {"", "a b", "a,IP:1.2.3.4", "DNS:x", "ä", "x\ny"}) {
    request.names = {name};
    EXPECT_EQ(SignCertificate(authority_.pair(), request).status().code(), StatusCode::kInvalidArgument) << name;
  }
  request.names = {};
  request.name = std::string(CertificateRequest::kNameBytesMax + 1, 'x');
  EXPECT_EQ(SignCertificate(authority_.pair(), request).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      SignCertificate(Signed(TestAuthority::RequestOf("bob", true)), TestAuthority::RequestOf("eve", false)).status().code(),
      StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
