// tessera-node with a tesserad on the emulator, and a placer that is the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "protocol/base/bytes_text.h"
#include "tests/netaware/node/node_program.h"

namespace tessera {
namespace {

using Order = control::v1::Order;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    EXPECT_EQ(server.gpus(i).pci(), snapshot.devices[static_cast<size_t>(i)].pci_bus_id);
    EXPECT_TRUE(server.gpus(i).has_numa());
    EXPECT_EQ(server.gpus(i).numa(), static_cast<uint32_t>(i));
    EXPECT_DOUBLE_EQ(server.gpus(i).kept_share(), 0.01);
    EXPECT_THAT(server.gpus(i).isolations(), ElementsAre("strict"));
    EXPECT_THAT(server.gpus(i).priorities(), ElementsAre("protected", "normal"));
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

// A placer may be wrong about the free room; its signature makes no room.
TEST_F(NodeProgramTest, APromiseThatDoesNotFitIsRefusedByTheBrokerWhoeverSignedIt) {
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode()) << Log();
  const uint64_t all_bytes = placer_->registration().gpus(1).memory_bytes();
  const Ticket small = TicketOf(0xa1);
  ASSERT_EQ(placer_->Give(Order::HOLD, small), "done");
  Ticket large = TicketOf(0xa2);
  large.vgpus[0].memory_bytes = all_bytes;
  EXPECT_THAT(placer_->Give(Order::HOLD, large), HasSubstr("is 64 MiB too much"));
  Ticket unlimited = TicketOf(0xa3);
  unlimited.vgpus[0].memory_bytes = 0;
  EXPECT_THAT(placer_->Give(Order::HOLD, unlimited), HasSubstr("counts as the whole GPU beside grants"));
  EXPECT_THAT(Vgpus(), ElementsAre(Name(small)));
  EXPECT_EQ(placer_->Give(Order::CANCEL, small), "done");

  // A vGPU that an administrator made without a limit of memory.
  const RpcConnection connection = std::move(ConnectRpc("unix:" + Path("server.control"), {}, {}, "start it")).value();
  control::v1::CreateRequest train;
  train.set_name("train");
  train.set_gpu("1");
  train.mutable_spec()->set_memory_bytes(0);
  grpc::ClientContext context;
  control::v1::Vgpu made;
  ASSERT_TRUE(control::v1::VgpuService::NewStub(connection.channel)->Create(&context, train, &made).ok());
  EXPECT_TRUE(placer_->WaitForBeat([&](const control::v1::Beat& beat) { return beat.others(1).memory_bytes() == all_bytes; }));
  EXPECT_THAT(placer_->Give(Order::HOLD, TicketOf(0xa4)),
              HasSubstr("memory 64 MiB is 64 MiB too much: the GPU has " + BytesText(all_bytes) +
                        " for vGPUs, and 0 bytes are left; vGPU 'train' has no limit of memory"));
  EXPECT_THAT(Vgpus(), ElementsAre("train"));
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

TEST_F(NodeProgramTest, KilledAtAnyTimeItForgetsNothingThatItAnswered) {
  constexpr int kKills = 12;
  std::set<std::string> confirmed;
  for (int kill = 0; kill < kKills; ++kill) {
    StartNode();
    ASSERT_TRUE(placer_->WaitForNode(kill + 1)) << Log();
    std::map<uint64_t, std::string> orders;
    for (uint8_t i = 0; i < 4; ++i) {
      const Ticket ticket = TicketOf(static_cast<uint8_t>(1 + 4 * kill + i), 10'000);
      placer_->Send(Order::HOLD, ticket);
      orders[placer_->Send(Order::CONFIRM, ticket)] = GrantText(ticket.grant);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * kill));
    EndNode(SIGKILL);
    ASSERT_TRUE(placer_->WaitForEnds(kill + 1));
    for (const auto& [number, grant] : orders) {
      if (placer_->WasDone(number)) confirmed.insert(grant);
    }
  }
  EXPECT_FALSE(confirmed.empty());
  StartNode();
  ASSERT_TRUE(placer_->WaitForNode(kKills + 1));
  std::vector<std::string> wanted;
  const control::v1::Registration registration = placer_->registration();
  for (const control::v1::NodeGrant& grant : registration.state().grants()) {
    wanted.push_back("grant-" + grant.grant() + "-0");
    confirmed.erase(grant.grant());
  }
  EXPECT_THAT(confirmed, IsEmpty());
  EXPECT_FALSE(wanted.empty());
  EXPECT_TRUE(Comes([&] { return Vgpus() == wanted; })) << ::testing::PrintToString(Vgpus());
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
