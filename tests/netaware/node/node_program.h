// tessera-node as a process, with a tesserad on the emulator, and a placer that is the test.
#pragma once

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

inline constexpr uint64_t kWaitNs = 30'000'000'000;

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
    setenv("TESSERA_EMULATOR_NUMA", "1", 1);
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
  void StartNode(const std::vector<std::string>& more = {}) { StartNodeFor("unix:" + Path("placer"), more); }
  void StartNodeFor(const std::string& placer, const std::vector<std::string>& more) {
    auto pair = std::move(MakeSocketPair()).value();
    daemon_ = std::move(pair.first);
    std::vector<std::string> arguments = {"--placer",  placer, "--server",    "unix:" + Path("server"),
                                          "--host-id", "gpu7", "--daemon-fd", std::to_string(kPassedFd)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const UniqueFd log(open(Path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    node_ = StartProgram(NODE_PATH, "tessera-node", arguments, {pair.second.get()}, std::nullopt, log.get()).value();
  }
  // Ends the node by a signal (0: waits for its end) and describes how it ended.
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

}  // namespace tessera
