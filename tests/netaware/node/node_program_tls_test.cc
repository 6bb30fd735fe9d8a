// tessera-node and a placer at tls://.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "protocol/link/tls/tls_identity.h"
#include "protocol/rpc/rpc_front.h"
#include "tests/netaware/node/node_program.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {
namespace {

using Order = control::v1::Order;
using ::testing::HasSubstr;

class NodeProgramTlsTest : public NodeProgramTest {
 protected:
  void SetUp() override {
    NodeProgramTest::SetUp();
    // Threads of the front have both until the process ends.
    by_tls_ = new FakePlacer("", 3, *new TicketSigner(std::move(TicketSigner::Make()).value()));
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(socket.get(), 16), 0);
    ASSERT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = "tls://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    auto identity = TlsIdentity::Load(TlsRole::kServer, authority_.Server("placer"), "h2");
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    auto* const front =
        new RpcFront([placer = by_tls_](const std::string&) -> grpc::Server& { return placer->server(); }, *new RpcConnections());
    ASSERT_TRUE(front->ListenByTls(std::move(socket), *identity, "the placer").ok());
  }
  static std::vector<std::string> Words(const LinkOptions& link) {
    return {"--certificate", link.keys.certificate, "--key", link.keys.key, "--authority", link.keys.authority};
  }

  TestAuthority authority_;
  FakePlacer* by_tls_ = nullptr;
  std::string url_;
};

TEST_F(NodeProgramTlsTest, APlacerIsReachedByTls) {
  StartNodeFor(url_, Words(authority_.Client("gpu7")));
  ASSERT_TRUE(by_tls_->WaitForNode()) << Log();
  EXPECT_EQ(by_tls_->registration().server(), "gpu7");
  Ticket unknown;
  unknown.grant.fill(std::byte{1});
  EXPECT_EQ(by_tls_->Give(Order::CANCEL, unknown), "done");
  EXPECT_THAT(by_tls_->Give(Order::CONFIRM, unknown), HasSubstr("not held here"));
}

TEST_F(NodeProgramTlsTest, AStrangersCertificateIsNotAccepted) {
  const TestAuthority other("Somebody else");
  StartNodeFor(url_, Words(other.Client("gpu7")));
  ASSERT_TRUE(Comes([&] { return Log().find("no placer: ") != std::string::npos; }));
  EXPECT_THAT(Log(), HasSubstr("certificate"));
  EXPECT_EQ(by_tls_->registrations(), 0);
}

// In its sandbox, where it may open none: for each connection, by their names.
TEST_F(NodeProgramTlsTest, NewFilesAreTakenUp) {
  const TestAuthority other("Somebody else");
  const LinkOptions before = other.Client("gpu7");
  StartNodeFor(url_, Words(before));
  ASSERT_TRUE(Comes([&] { return Log().find("no placer: ") != std::string::npos; }));
  const LinkOptions now = authority_.Client("gpu7");
  for (const auto& [from, to] : {std::pair(now.keys.certificate, before.keys.certificate),
                                 {now.keys.key, before.keys.key},
                                 {now.keys.authority, before.keys.authority}}) {
    std::filesystem::copy_file(from, to + ".new");
    std::filesystem::rename(to + ".new", to);
  }
  ASSERT_TRUE(by_tls_->WaitForNode()) << Log();
  EXPECT_EQ(by_tls_->registration().server(), "gpu7");
}

}  // namespace
}  // namespace tessera
