// tessera-node with a tesserad on the emulator, and a placer that is the test.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "generated/control/vgpu.grpc.pb.h"
#include "protocol/base/clock.h"
#include "protocol/base/start_program.h"
#include "protocol/channel/query_server.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/node/node_line.h"
#include "protocol/rpc/rpc_client.h"
#include "protocol/wire/device_snapshot.h"
#include "tests/netaware/node/fake_placer.h"

namespace tessera {
namespace {

using Order = control::v1::Order;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kWaitNs = 30'000'000'000;

template <typename Condition>
bool Comes(Condition is_so) {
  for (const uint64_t end = MonotonicNs() + kWaitNs; MonotonicNs() < end;) {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

class NodeProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/tessera-node-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    setenv("XDG_STATE_HOME", directory, 1);
    setenv("XDG_CACHE_HOME", directory, 1);
    setenv("TESSERA_EMULATOR_DEVICES", "2", 1);
    placer_ = std::make_unique<FakePlacer>(Path("placer"), 3, signer_);
    StartServer();
  }
  void TearDown() override {
    EndNode(SIGKILL);
    EndServer();
    placer_.reset();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void StartServer() {
    server_ = StartProgram(TESSERAD_PATH, "tesserad",
                           {"--listen", "unix:" + Path("server"), "--control", "unix:" + Path("server.control"), "--driver",
                            "emulator", "--grace", "0", "--warm-workers", "0"},
                           {})
                  .value();
    ASSERT_TRUE(Comes([&] { return QueryServer(Path("server"), {}, MonotonicNs() + kQueryTimeoutNs).ok(); }));
  }
  void EndServer() {
    if (server_ <= 0) return;
    kill(server_, SIGTERM);
    waitpid(std::exchange(server_, -1), nullptr, 0);
  }
  void StartNode(const std::vector<std::string>& more = {}) {
    auto pair = std::move(MakeSocketPair()).value();
    daemon_ = std::move(pair.first);
    std::vector<std::string> arguments = {
        "--placer",    "unix:" + Path("placer"), "--server", "unix:" + Path("server"), "--host-id", "gpu7",
        "--daemon-fd", std::to_string(kPassedFd)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const UniqueFd log(open(Path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    node_ = StartProgram(NODE_PATH, "tessera-node", arguments, {pair.second.get()}, std::nullopt, log.get()).value();
  }
  // How it ended.
  std::string EndNode(int number) {
    if (node_ <= 0) return "";
    if (number != 0) kill(node_, number);
    int status = 0;
    waitpid(std::exchange(node_, -1), &status, 0);
    return DescribeWaitStatus(status);
  }
  std::string Log() const {
    std::ostringstream text;
    text << std::ifstream(Path("log")).rdbuf();
    return text.str();
  }
  control::v1::VgpuList List() {
    control::v1::VgpuList list;
    Result<RpcConnection> connection = ConnectRpc("unix:" + Path("server.control"), {}, {}, "start it");
    if (!connection.ok()) return list;
    grpc::ClientContext context;
    (void)control::v1::VgpuService::NewStub(connection->channel)->List(&context, control::v1::ListRequest(), &list);
    return list;
  }
  std::vector<std::string> Vgpus() {
    const control::v1::VgpuList list = List();
    std::vector<std::string> names;
    if (list.gpus_size() == 0) return {"nobody answers"};
    for (const control::v1::Vgpu& vgpu : list.vgpus()) names.push_back(vgpu.name());
    return names;
  }
  Ticket TicketOf(uint8_t grant, uint32_t share = 250'000, uint64_t epoch = 3) {
    const control::v1::Registration server = placer_->registration();
    const int64_t now_ms = FakePlacer::NowMs();
    Ticket ticket{.cluster = "west",
                  .server = "gpu7",
                  .holder = "uid:" + std::to_string(getuid()),
                  .epoch = epoch,
                  .issued_ms = now_ms,
                  .expires_ms = now_ms + 600'000};
    ticket.grant.fill(std::byte{grant});
    TicketVgpu vgpu{
        .request = share, .limit = std::max(share, 500'000U), .memory_bytes = 64 << 20, .priority = TicketPriority::kBestEffort};
    for (size_t i = 0, digit = 4; i < 16; ++i, digit += 2) {
      while (server.gpus(1).uuid()[digit] == '-') ++digit;
      vgpu.gpu[i] = std::byte(std::stoi(server.gpus(1).uuid().substr(digit, 2), nullptr, 16));
    }
    ticket.vgpus = {vgpu};
    return ticket;
  }
  static std::string Name(const Ticket& ticket) { return "grant-" + GrantText(ticket.grant) + "-0"; }
  // The vGPUs, or why none.
  std::string Show(const Ticket& ticket) {
    Encoder out;
    TicketQuestion{++shown_, "uid:" + std::to_string(getuid()), signer_.Sign(ticket)}.Encode(out);
    EXPECT_TRUE(SendMessage(daemon_.get(), out.bytes(), {}, MonotonicNs() + kWaitNs).ok());
    Result<SocketMessage> message = ReceiveMessage(daemon_.get(), kNodeMessageBytesMax, MonotonicNs() + kWaitNs);
    if (!message.ok()) return message.status().message();
    const TicketAnswer answer = TicketAnswer::Decode(message->bytes).value();
    EXPECT_EQ(answer.id, shown_);
    return answer.code == StatusCode::kOk ? answer.vgpus : answer.sentence;
  }
  // The broker's pid.
  pid_t Broker() const {
    std::ifstream children("/proc/" + std::to_string(server_) + "/task/" + std::to_string(server_) + "/children");
    for (pid_t pid; children >> pid;) {
      std::string name;
      std::ifstream("/proc/" + std::to_string(pid) + "/comm") >> name;
      if (name == "tessera-broker") return pid;
    }
    return -1;
  }

  TicketSigner signer_ = std::move(TicketSigner::Make()).value();
  std::string directory_;
  std::unique_ptr<FakePlacer> placer_;
  UniqueFd daemon_;
  pid_t server_ = -1;
  pid_t node_ = -1;
  uint64_t shown_ = 0;
};

TEST_F(NodeProgramTest, AServerIsMadeKnown) {
  StartNode({"--address", "tls://gpu7.example:4180", "--address", "unix:/run/tessera.sock"});
  ASSERT_TRUE(placer_->WaitForNode()) << Log();
  const control::v1::Registration server = placer_->registration();
  EXPECT_EQ(server.server(), "gpu7");
  EXPECT_THAT(server.addresses(), ElementsAre("tls://gpu7.example:4180", "unix:/run/tessera.sock"));
  EXPECT_EQ(server.release(), TESSERA_VERSION);
  ASSERT_EQ(server.gpus_size(), 2);
  const ServerReport report = QueryServer(Path("server"), {}, MonotonicNs() + kQueryTimeoutNs).value();
  const DeviceSnapshot snapshot = DeviceSnapshot::Decode(report.snapshot).value();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(server.gpus(i).uuid(), snapshot.devices[static_cast<size_t>(i)].UuidText());
    EXPECT_EQ(server.gpus(i).model(), snapshot.devices[static_cast<size_t>(i)].name);
    EXPECT_GT(server.gpus(i).memory_bytes(), uint64_t{64} << 20);
    EXPECT_LE(server.gpus(i).memory_bytes(), snapshot.devices[static_cast<size_t>(i)].total_bytes);
  }
  EXPECT_TRUE(placer_->WaitForBeat([](const control::v1::Beat& beat) {
    return beat.others_size() == 2 && beat.others(0).share() > 0 && beat.others(0).share() < 0.02 && beat.grants_size() == 0;
  }));
}

TEST_F(NodeProgramTest, AGrantGoesItsWayAndItsTicketsCountAsLong) {
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode()) << Log();
  const Ticket ticket = TicketOf(0xa1);
  EXPECT_EQ(placer_->Give(Order::HOLD, ticket), "done");
  const control::v1::VgpuList list = List();
  ASSERT_EQ(list.vgpus_size(), 1);
  EXPECT_EQ(list.vgpus(0).name(), Name(ticket));
  EXPECT_EQ(list.vgpus(0).gpu(), 1u);
  EXPECT_EQ(list.vgpus(0).spec().request(), 0.25);
  EXPECT_EQ(list.vgpus(0).spec().limit(), 0.5);
  EXPECT_EQ(list.vgpus(0).spec().memory_bytes(), uint64_t{64} << 20);
  EXPECT_EQ(list.vgpus(0).spec().priority(), "best-effort");
  EXPECT_THAT(list.vgpus(0).spec().owners().holders(), ElementsAre(ticket.holder));
  EXPECT_EQ(placer_->Give(Order::CONFIRM, ticket), "done");
  EXPECT_EQ(Show(ticket), Name(ticket));
  const Ticket large = TicketOf(0xa2, 900'000);
  EXPECT_THAT(placer_->Give(Order::HOLD, large), HasSubstr("request 0.9 is 0.16 too much"));
  EXPECT_THAT(Show(large), HasSubstr("too much"));
  EXPECT_TRUE(placer_->WaitForBeat([&](const control::v1::Beat& beat) {
    return beat.grants_size() == 1 && beat.grants(0).grant() == GrantText(ticket.grant) && !beat.grants(0).is_held();
  }));
  EXPECT_EQ(placer_->Give(Order::RELEASE, ticket, FakePlacer::NowMs() + 600'000), "done");
  EXPECT_THAT(Vgpus(), IsEmpty());
  EXPECT_THAT(Show(ticket), HasSubstr("was released"));
}

TEST_F(NodeProgramTest, AReleaseEndsTheSessionsOfItsGrant) {
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode()) << Log();
  const Ticket ticket = TicketOf(0xa1);
  ASSERT_EQ(placer_->Give(Order::HOLD, ticket), "done");
  ASSERT_EQ(placer_->Give(Order::CONFIRM, ticket), "done");
  int input[2];
  ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
  const UniqueFd open(input[1]);
  const pid_t job = StartProgram("/bin/sh", "sh",
                                 {"-c", "exec \"$@\" <&3", "sh", TESSERA_PATH, "run", "--quiet", "--server",
                                  "unix:" + Path("server"), "--vgpu", Name(ticket), "--", OCCUPY_PATH, "1", "1", "stay"},
                                 {input[0]})
                        .value();
  close(input[0]);
  EXPECT_TRUE(placer_->WaitForBeat(
      [](const control::v1::Beat& beat) { return beat.grants_size() == 1 && beat.grants(0).sessions() == 1; }));
  EXPECT_EQ(placer_->Give(Order::RELEASE, ticket, FakePlacer::NowMs() + 600'000), "done");
  EXPECT_THAT(Vgpus(), IsEmpty());
  EXPECT_TRUE(Comes([&] {
    const ServerReport report = QueryServer(Path("server"), {}, MonotonicNs() + kQueryTimeoutNs).value();
    return report.sessions == 0;
  }));
  kill(job, SIGKILL);
  waitpid(job, nullptr, 0);
}

TEST_F(NodeProgramTest, WhatWasGrantedOutlivesNodePlacerAndBroker) {
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode()) << Log();
  const Ticket ticket = TicketOf(0xa1);
  const Ticket unknown = TicketOf(0xa2);
  ASSERT_EQ(placer_->Give(Order::HOLD, ticket), "done");
  ASSERT_EQ(placer_->Give(Order::CONFIRM, ticket), "done");
  placer_.reset();
  EXPECT_EQ(Show(ticket), Name(ticket));

  EXPECT_EQ(EndNode(SIGKILL), "was killed by signal 9 (Killed)");
  EXPECT_THAT(Vgpus(), ElementsAre(Name(ticket)));
  StartNode();
  EXPECT_EQ(Show(ticket), Name(ticket)) << Log();
  EXPECT_EQ(Show(unknown), Name(unknown));  // as of a ledger that was lost

  const pid_t broker = Broker();
  ASSERT_GT(broker, 0);
  kill(broker, SIGKILL);
  ASSERT_TRUE(Comes([&] { return Broker() > 0 && Broker() != broker; }));
  EXPECT_TRUE(Comes([&] { return Vgpus() == std::vector<std::string>{Name(ticket), Name(unknown)}; }));
  EXPECT_TRUE(Comes([&] { return Show(ticket) == Name(ticket); }));

  placer_ = std::make_unique<FakePlacer>(Path("placer"), 4, signer_);
  ASSERT_TRUE(placer_->WaitForNode());
  EXPECT_EQ(placer_->registration().state().grants_size(), 2);
  EXPECT_EQ(placer_->Give(Order::RELEASE, ticket, FakePlacer::NowMs() + 600'000), "done");
  EXPECT_THAT(Vgpus(), ElementsAre(Name(unknown)));
}

TEST_F(NodeProgramTest, AnOlderPlacerIsLeftAlone) {
  placer_.reset();
  placer_ = std::make_unique<FakePlacer>(Path("placer"), 7, signer_);
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode());
  ASSERT_EQ(placer_->Give(Order::HOLD, TicketOf(0xa1, 250'000, 7)), "done");
  placer_.reset();
  placer_ = std::make_unique<FakePlacer>(Path("placer"), 6, signer_);
  ASSERT_TRUE(placer_->WaitForEnds(2));  // it comes again, and goes
  EXPECT_THAT(Log(), HasSubstr("its stream is of epoch 6 of the placer, and 7 was seen"));
}

TEST_F(NodeProgramTest, APlacerThatRefusesIsLoggedOnceAndAskedAgain) {
  placer_->Refuse("another server is called gpu7");
  StartNode();
  ASSERT_TRUE(Comes([&] { return placer_->registrations() >= 3; }));
  const std::string log = Log();
  const size_t first = log.find("another server is called gpu7");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("another server is called gpu7", first + 1), std::string::npos) << log;
  placer_->Refuse("");
  EXPECT_TRUE(placer_->WaitForNode());
}

TEST_F(NodeProgramTest, APlacerThatSaysNothingIsLeft) {
  placer_->BeSilent();
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode(1));
  EXPECT_TRUE(placer_->WaitForNode(2));
  EXPECT_THAT(Log(), HasSubstr("says nothing"));
}

TEST_F(NodeProgramTest, ItEndsWithItsDaemonOrByASignalAndVgpusStay) {
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode());
  const Ticket ticket = TicketOf(0xa1);
  ASSERT_EQ(placer_->Give(Order::HOLD, ticket), "done");
  ASSERT_EQ(placer_->Give(Order::CONFIRM, ticket), "done");
  EXPECT_EQ(EndNode(SIGTERM), "exited with code 0");
  StartNode();
  EXPECT_EQ(Show(ticket), Name(ticket));
  daemon_.reset();
  EXPECT_EQ(EndNode(0), "exited with code 0");
  EXPECT_THAT(Vgpus(), ElementsAre(Name(ticket)));
}

TEST_F(NodeProgramTest, ALedgerThatCannotBeUsedIsNotUsed) {
  std::ofstream(Path("ledger")) << "this is no ledger, but a text that somebody keeps here";
  StartNode({"--state", Path("ledger")});
  EXPECT_EQ(EndNode(0), "exited with code 4");
  EXPECT_THAT(Log(), HasSubstr(Path("ledger")));
}

TEST_F(NodeProgramTest, ACommandLineThatIsWrongIsRefused) {
  const std::vector<std::vector<std::string>> wrong = {{"--placer", "tcp://x:1"},
                                                       {"--server", "tls://x:1"},
                                                       {"--control", "tls://x:1"},
                                                       {"--host-id", std::string(64, 'x')},
                                                       {"--none"}};
  for (const std::vector<std::string>& words : wrong) {
    std::vector<std::string> arguments = {"--placer", "unix:/p", "--server", "unix:/s"};
    if (words[0] == "--placer") arguments = {"--server", "unix:/s"};
    if (words[0] == "--server") arguments = {"--placer", "unix:/p"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const UniqueFd log(open(Path("log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    node_ = StartProgram(NODE_PATH, "tessera-node", arguments, {}, std::nullopt, log.get()).value();
    EXPECT_EQ(EndNode(0), "exited with code 2") << words[0];
    EXPECT_THAT(Log(), HasSubstr("See tessera-node --help"));
  }
}

}  // namespace
}  // namespace tessera
