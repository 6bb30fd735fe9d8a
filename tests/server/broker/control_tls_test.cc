// The control API of a tessera-broker at tls://, as gRPC's own clients with credentials see it, and strangers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "generated/control/vgpu.grpc.pb.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/rpc/tls_front.h"
#include "tests/server/broker/broker_process.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {
namespace {

using control::v1::CreateRequest;
using control::v1::ListRequest;
using control::v1::Vgpu;
using control::v1::VgpuList;
using control::v1::VgpuService;
using ::testing::HasSubstr;

constexpr auto kAnswer = std::chrono::seconds(20);

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class ControlTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
    ASSERT_TRUE(listener.ok());
    listener_.emplace(std::move(*listener));
    broker_ = std::make_unique<BrokerProcess>(
        std::vector<std::string>{"--control-tls-fd", std::to_string(kPassedFd + 1), "--sandbox", "auto", "--admin", "name:root",
                                 "--admin", "uid:" + std::to_string(getuid())},
        1, listener_->fd());
    const ControlKeysAnswer answer = Give(authority_.Server().keys);
    ASSERT_EQ(answer.code, StatusCode::kOk) << answer.sentence;
  }
  ControlKeysAnswer Give(const KeyFiles& files, const std::string& names = "") {
    const std::string texts[] = {Read(files.certificate), Read(files.key), Read(files.authority), names};
    ControlKeysMessage message{++revision_, files.certificate, files.key, files.authority, !names.empty(), {}};
    const UniqueFd memory(memfd_create("keys", MFD_CLOEXEC));
    for (size_t i = 0; i < std::size(texts); ++i) {
      message.text_bytes[i] = texts[i].size();
      EXPECT_EQ(write(memory.get(), texts[i].data(), texts[i].size()), static_cast<ssize_t>(texts[i].size()));
    }
    broker_->Send(message, {memory.get()});
    return broker_->Next<ControlKeysAnswer>();
  }
  std::unique_ptr<VgpuService::Stub> Client(const LinkOptions& options) const {
    const grpc::SslCredentialsOptions keys = {Read(options.keys.authority), Read(options.keys.key),
                                              Read(options.keys.certificate)};
    grpc::ChannelArguments own;
    own.SetInt("grpc.use_local_subchannel_pool", 1);
    return VgpuService::NewStub(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(listener_->address().port), grpc::SslCredentials(keys), own));
  }
  std::unique_ptr<VgpuService::Stub> Client(const std::string& name) const { return Client(authority_.Client(name)); }
  static grpc::Status Create(VgpuService::Stub& stub, const std::string& name, const std::string& owner) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswer);
    CreateRequest wanted;
    wanted.set_name(name);
    wanted.mutable_spec()->mutable_owners()->add_holders(owner);
    Vgpu vgpu;
    return stub.Create(&context, wanted, &vgpu);
  }
  static grpc::Status List(VgpuService::Stub& stub, VgpuList* list) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswer);
    return stub.List(&context, ListRequest(), list);
  }
  UniqueFd Connect() const {
    Result<UniqueFd> socket = ConnectTcpSocket(listener_->address(), false, MonotonicNs() + kTcpTestNs);
    EXPECT_TRUE(socket.ok());
    return std::move(socket).value();
  }

  TestAuthority authority_;
  std::optional<TcpListener> listener_;
  std::unique_ptr<BrokerProcess> broker_;
  uint64_t revision_ = 0;
};

TEST_F(ControlTlsTest, WhoCallsIsTheNameInTheCertificate) {
  const auto root = Client("root"), alice = Client("alice");
  EXPECT_TRUE(Create(*root, "of-alice", "name:alice").ok());
  EXPECT_TRUE(Create(*root, "of-bob", "name:bob").ok());
  const grpc::Status refused = Create(*alice, "mine", "name:alice");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("name:alice may not change vGPUs"));
  VgpuList list;
  ASSERT_TRUE(List(*alice, &list).ok());
  ASSERT_EQ(list.vgpus_size(), 1);
  EXPECT_EQ(list.vgpus(0).name(), "of-alice");
  ASSERT_TRUE(List(*root, &list).ok());
  EXPECT_EQ(list.vgpus_size(), 2);
}

TEST_F(ControlTlsTest, AnotherAuthoritysCertificateIsRefused) {
  const TestAuthority other("Another authority");
  LinkOptions options = other.Client("root");
  options.keys.authority = authority_.path();
  VgpuList list;
  EXPECT_EQ(List(*Client(options), &list).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(List(*Client("root"), &list).ok());
}

TEST_F(ControlTlsTest, KeysThatCannotBeUsedChangeNothing) {
  KeyFiles files = authority_.Server().keys;
  files.key = authority_.Client("somebody").keys.key;
  const ControlKeysAnswer answer = Give(files);
  EXPECT_EQ(answer.code, StatusCode::kPermissionDenied);
  EXPECT_THAT(answer.sentence, HasSubstr("is not that of the certificate"));
  VgpuList list;
  EXPECT_TRUE(List(*Client("root"), &list).ok());
  EXPECT_EQ(Give(authority_.Server().keys, "alice\n").code, StatusCode::kOk);
  EXPECT_TRUE(List(*Client("alice"), &list).ok());
  EXPECT_FALSE(List(*Client("root"), &list).ok());
}

// Every beginning of a client's first words, and nothing behind it.
TEST_F(ControlTlsTest, BeginningsOfAHandshake) {
  auto [near, far] = [] {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
  }();
  RawTlsPeer peer(std::move(near), false, {});
  SSL_do_handshake(peer.ssl());
  std::string hello(65536, 0);
  const ssize_t bytes = recv(far.get(), hello.data(), hello.size(), 0);
  ASSERT_GT(bytes, 5);
  for (ssize_t length = 0; length < bytes; length += 7) {
    const UniqueFd socket = Connect();
    EXPECT_EQ(send(socket.get(), hello.data(), static_cast<size_t>(length), MSG_NOSIGNAL), length);
    shutdown(socket.get(), SHUT_WR);
    pollfd ready = {socket.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 20'000), 1) << length;
  }
  VgpuList list;
  EXPECT_TRUE(List(*Client("root"), &list).ok());
}

// Each watches: the first stream that is over says whose connection went.
TEST_F(ControlTlsTest, OfOneNameThereAreSixteenAndTheOldestGoes) {
  struct Watching {
    std::unique_ptr<VgpuService::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<VgpuList>> reader;
  };
  std::vector<std::unique_ptr<Watching>> all;
  VgpuList list;
  const auto watch = [&](const std::string& name) {
    auto& one = *all.emplace_back(std::make_unique<Watching>());
    one.stub = Client(name);
    one.context.set_deadline(std::chrono::system_clock::now() + kAnswer);
    one.reader = one.stub->Watch(&one.context, ListRequest());
    return one.reader->Read(&list);
  };
  ASSERT_TRUE(watch("bob"));
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(watch("alice")) << i;
  ASSERT_TRUE(watch("alice"));
  EXPECT_FALSE(all[1]->reader->Read(&list));
  EXPECT_EQ(all[1]->reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  // The others go on.
  const auto root = Client("root");
  EXPECT_TRUE(Create(*root, "of-alice", "name:alice").ok());
  for (size_t i = 2; i < all.size(); ++i) {
    EXPECT_TRUE(all[i]->reader->Read(&list)) << i;
    EXPECT_EQ(list.vgpus_size(), 1) << i;
  }
  EXPECT_TRUE(Create(*root, "of-bob", "name:bob").ok());
  EXPECT_TRUE(all[0]->reader->Read(&list));
  for (const auto& one : all) one->context.TryCancel();
}

// More names than there is room for, each with as many watches as it may have: administrators have room of their own.
TEST_F(ControlTlsTest, AdministratorsHaveTheirOwn) {
  std::vector<std::unique_ptr<VgpuService::Stub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<VgpuList>>> readers;
  VgpuList list;
  for (int i = 0; i < 80; ++i) {
    stubs.push_back(Client("name" + std::to_string(i % 6)));
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(std::chrono::system_clock::now() + kAnswer);
    readers.push_back(stubs.back()->Watch(contexts.back().get(), ListRequest()));
    (void)readers.back()->Read(&list);
  }
  const auto root = Client("root");
  EXPECT_TRUE(List(*root, &list).ok());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswer);
  const auto reader = root->Watch(&context, ListRequest());
  EXPECT_TRUE(reader->Read(&list));
  // So has somebody who has nothing yet.
  EXPECT_TRUE(List(*Client("late"), &list).ok());
  context.TryCancel();
  for (const auto& each : contexts) each->TryCancel();
}

// Beside them the daemon is answered, and what they hold is bounded.
TEST_F(ControlTlsTest, StrangersAreBounded) {
  std::vector<UniqueFd> silent;
  constexpr size_t kMost = TlsFront::kNewcomers.in_all;
  for (size_t i = 0; i < kMost + 100; ++i) silent.push_back(Connect());
  EXPECT_EQ(broker_->TakeFile("[[vgpu]]\nname = 'f'\n").code, StatusCode::kOk);
  VgpuList list;
  EXPECT_TRUE(List(*Client("root"), &list).ok());
  const std::string descriptors = "/proc/" + std::to_string(broker_->pid()) + "/fd";
  const auto open = std::distance(std::filesystem::directory_iterator(descriptors), std::filesystem::directory_iterator());
  EXPECT_LT(open, static_cast<ptrdiff_t>(kMost) + 40);
}

}  // namespace
}  // namespace tessera
