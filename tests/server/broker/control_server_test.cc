// The control API of a tessera-broker in its sandbox, as gRPC's clients see it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "generated/control/vgpu.grpc.pb.h"
#include "tests/server/broker/broker_process.h"

namespace tessera {
namespace {

using control::v1::CreateRequest;
using control::v1::DeleteRequest;
using control::v1::GetRequest;
using control::v1::ImportRequest;
using control::v1::ListRequest;
using control::v1::UpdateRequest;
using control::v1::Vgpu;
using control::v1::VgpuList;
using control::v1::VgpuService;
using ::testing::HasSubstr;

constexpr auto kAnswer = std::chrono::seconds(20);

std::unique_ptr<grpc::ClientContext> Context() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + kAnswer);
  return context;
}

class ControlServerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/controlXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    Result<UnixListener> listener = UnixListener::Bind(directory_ + "/s", {0666, {}}, SocketKind::kBytes);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_.emplace(std::move(*listener));
  }
  void TearDown() override {
    broker_.reset();
    listener_.reset();
    std::filesystem::remove_all(directory_);
  }

  static std::string Me() { return "uid:" + std::to_string(getuid()); }
  void Serve(const std::vector<std::string>& administrators = {Me()}, bool is_told = true) {
    std::vector<std::string> options = {"--control-fd", std::to_string(kPassedFd + 1), "--sandbox", "auto"};
    for (const std::string& holder : administrators) options.insert(options.end(), {"--admin", holder});
    broker_ = std::make_unique<BrokerProcess>(options, 1, listener_->fd(), is_told);
  }
  UniqueFd Connect() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    listener_->path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
    return socket;
  }
  // Each with a connection of its own.
  std::unique_ptr<VgpuService::Stub> Client() const {
    return VgpuService::NewStub(grpc::CreateInsecureChannelFromFd("control", Connect().release()));
  }
  static grpc::Status Create(VgpuService::Stub& stub, const std::string& name, double request, Vgpu* vgpu) {
    CreateRequest wanted;
    wanted.set_name(name);
    wanted.mutable_spec()->set_request(request);
    return stub.Create(Context().get(), wanted, vgpu);
  }
  size_t CountOfVgpus(VgpuService::Stub& stub) const {
    VgpuList list;
    const grpc::Status status = stub.List(Context().get(), ListRequest(), &list);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return static_cast<size_t>(list.vgpus_size());
  }
  // Of /proc/PID/smaps_rollup.
  size_t UnsharedKib() const {
    std::ifstream file("/proc/" + std::to_string(broker_->pid()) + "/smaps_rollup");
    size_t sum = 0, number = 0;
    for (std::string word; file >> word;) {
      if ((word == "Private_Clean:" || word == "Private_Dirty:") && file >> number) sum += number;
    }
    return sum;
  }

  std::string directory_;
  std::optional<UnixListener> listener_;
  std::unique_ptr<BrokerProcess> broker_;
};

TEST_F(ControlServerTest, AVgpuIsMadeChangedAndDeleted) {
  Serve();
  const auto stub = Client();
  Vgpu vgpu;
  grpc::Status status = Create(*stub, "a", 0.25, &vgpu);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(vgpu.name(), "a");
  EXPECT_EQ(vgpu.spec().request(), 0.25);
  EXPECT_EQ(vgpu.spec().limit(), 1);
  EXPECT_EQ(vgpu.spec().priority(), "normal");
  EXPECT_EQ(vgpu.spec().overrun(), "bill");
  EXPECT_TRUE(vgpu.spec().has_owners());
  EXPECT_EQ(vgpu.made_by(), "api");
  EXPECT_EQ(broker_->TakeFile("[[vgpu]]\nname = 'f'\nrequest = 0.8\n").code, StatusCode::kResourceExhausted);

  UpdateRequest change;
  change.set_name("a");
  change.set_revision(vgpu.revision());
  change.mutable_spec()->set_limit(0.5);
  change.mutable_spec()->mutable_owners()->add_holders("uid:4711");
  Vgpu changed;
  status = stub->Update(Context().get(), change, &changed);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(changed.spec().limit(), 0.5);
  EXPECT_EQ(changed.spec().request(), 0.25);
  EXPECT_EQ(changed.spec().owners().holders(0), "uid:4711");
  status = stub->Update(Context().get(), change, &changed);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("limit 0.5"));

  GetRequest get;
  get.set_name("a");
  Vgpu got;
  ASSERT_TRUE(stub->Get(Context().get(), get, &got).ok());
  EXPECT_EQ(got.memory_held_by_kind_size(), 8) << "of Get alone";
  got.clear_memory_held_by_kind();
  EXPECT_EQ(got.SerializeAsString(), changed.SerializeAsString());
  DeleteRequest remove;
  remove.set_name("a");
  ASSERT_TRUE(stub->Delete(Context().get(), remove, &got).ok());
  EXPECT_EQ(stub->Delete(Context().get(), remove, &got).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(CountOfVgpus(*stub), 0u);
}

TEST_F(ControlServerTest, WhoeverIsNoAdministratorChangesNothing) {
  Serve({"uid:4711"});
  const auto stub = Client();
  Vgpu vgpu;
  const grpc::Status status = Create(*stub, "a", 0.25, &vgpu);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("uid:" + std::to_string(getuid()) + " may not change vGPUs"));
  EXPECT_EQ(broker_->TakeFile("[[vgpu]]\nname = 'f'\n[[vgpu]]\nname = 'o'\nowners = ['uid:4711']\n").code, StatusCode::kOk);
  EXPECT_EQ(CountOfVgpus(*stub), 1u);
}

TEST_F(ControlServerTest, AWatcherIsToldWhatChanges) {
  Serve();
  const auto stub = Client();
  const auto context = Context();
  const auto reader = stub->Watch(context.get(), ListRequest());
  VgpuList list;
  ASSERT_TRUE(reader->Read(&list));
  EXPECT_EQ(list.vgpus_size(), 0);
  Vgpu vgpu;
  ASSERT_TRUE(Create(*stub, "a", 0.25, &vgpu).ok());
  ASSERT_TRUE(reader->Read(&list));
  ASSERT_EQ(list.vgpus_size(), 1);
  EXPECT_EQ(list.vgpus(0).SerializeAsString(), vgpu.SerializeAsString());
  // What the file makes, and a session that comes.
  EXPECT_EQ(broker_->TakeFile("[[vgpu]]\nname = 'f'\n").code, StatusCode::kOk);
  ASSERT_TRUE(reader->Read(&list));
  ASSERT_EQ(list.vgpus_size(), 2);
  EXPECT_EQ(list.vgpus(1).made_by(), "file");
  TestPages pages;
  pages.report().visible_rows = 1;
  TestProcess worker;
  broker_->Send(CameMessage{7, 1, "a"}, pages.Fds(worker));
  ASSERT_TRUE(reader->Read(&list));
  EXPECT_EQ(list.vgpus(0).sessions(), 1u);
  // By force its session ends.
  DeleteRequest remove;
  remove.set_name("a");
  EXPECT_EQ(stub->Delete(Context().get(), remove, &vgpu).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  remove.set_force(true);
  ASSERT_TRUE(stub->Delete(Context().get(), remove, &vgpu).ok());
  EXPECT_EQ(broker_->Next<EndMessage>().session, 7u);
  ASSERT_TRUE(reader->Read(&list));
  EXPECT_EQ(list.vgpus_size(), 1);
  context->TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The next one begins with what there is.
  const auto next_context = Context();
  const auto next = stub->Watch(next_context.get(), ListRequest());
  ASSERT_TRUE(next->Read(&list));
  EXPECT_EQ(list.vgpus_size(), 1);
  next_context->TryCancel();
  (void)next->Finish();
}

TEST_F(ControlServerTest, AFileOfVgpusIsImported) {
  Serve();
  const auto stub = Client();
  ImportRequest request;
  request.set_path("my\x1b.toml");
  const std::string vgpus = "[[vgpu]]\nname = 'b'\nrequest = 0.2\nsm_percent = 24\n[[vgpu]]\nname = 'a'\n";
  request.set_text(vgpus + std::string(65'536 - vgpus.size(), '#'));
  VgpuList list;
  grpc::Status status = stub->Import(Context().get(), request, &list);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(list.vgpus_size(), 2);
  EXPECT_EQ(list.vgpus(0).name(), "a");
  EXPECT_EQ(list.vgpus(1).spec().request(), 0.2);
  EXPECT_EQ(list.vgpus(1).spec().annotations().at("fastgshare/gpu_sm_partition"), "24");
  EXPECT_EQ(list.vgpus(1).made_by(), "api");
  VgpuList all;
  ASSERT_TRUE(stub->List(Context().get(), ListRequest(), &all).ok());
  all.clear_gpus();  // of which List alone tells
  EXPECT_EQ(all.SerializeAsString(), list.SerializeAsString());
  status = stub->Import(Context().get(), request, &list);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr(".toml: line 1: vGPU 'b' is there already"));
  EXPECT_EQ(status.error_message().find('\x1b'), std::string::npos);
  request.set_text(std::string(65'537, '\xff'));
  EXPECT_EQ(stub->Import(Context().get(), request, &list).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_text(std::string(75'000, '\xff'));
  EXPECT_EQ(stub->Import(Context().get(), request, &list).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ControlServerTest, AMessageOfTooManyBytesIsRefused) {
  Serve();
  const auto stub = Client();
  Vgpu vgpu;
  EXPECT_EQ(Create(*stub, std::string(75'000, 'x'), 0.25, &vgpu).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Create(*stub, std::string(60'000, 'x'), 0.25, &vgpu).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Tokens come first.
TEST_F(ControlServerTest, ItsThreadsAreLessUrgentThanTheBrokers) {
  Serve();
  EXPECT_EQ(CountOfVgpus(*Client()), 0u);
  const std::string tasks = "/proc/" + std::to_string(broker_->pid()) + "/task";
  const int of_broker = getpriority(PRIO_PROCESS, static_cast<id_t>(broker_->pid()));
  size_t others = 0;
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const int number = std::stoi(task.path().filename());
    if (number == broker_->pid()) continue;
    ++others;
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(number)), std::min(19, of_broker + 5)) << number;
  }
  EXPECT_GE(others, 2u);
}

// Beside connections that say nothing, or garbage, the broker answers its daemon and those who call.
TEST_F(ControlServerTest, StrangersAreBounded) {
  Serve();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(Connect());
    const std::string garbage(1'000, static_cast<char>(i));
    if (i % 2 == 0) {
      EXPECT_GT(send(silent.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 0);
    }
  }
  EXPECT_EQ(broker_->TakeFile("[[vgpu]]\nname = 'f'\n").code, StatusCode::kOk);
  const std::string descriptors = "/proc/" + std::to_string(broker_->pid()) + "/fd";
  const auto open = std::distance(std::filesystem::directory_iterator(descriptors), std::filesystem::directory_iterator());
  EXPECT_LT(open, 120);
  silent.clear();
  // Their places are free once gRPC has seen that they went.
  grpc::Status status;
  for (int i = 0; i < 100; ++i) {
    VgpuList list;
    status = Client()->List(Context().get(), ListRequest(), &list);
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// What it would change then is not what there is.
TEST_F(ControlServerTest, NobodyIsHeardBeforeItIsTold) {
  Serve({Me()}, false);
  const auto stub = Client();
  const auto list = [&](std::chrono::milliseconds wait) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + wait);
    VgpuList answer;
    return stub->List(&context, ListRequest(), &answer).error_code();
  };
  EXPECT_EQ(list(std::chrono::milliseconds(300)), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(broker_->TakeFile("[[vgpu]]\nname = 'a'\n").code, StatusCode::kOk);
  EXPECT_EQ(list(std::chrono::milliseconds(300)), grpc::StatusCode::DEADLINE_EXCEEDED);
  broker_->Send(ToldMessage());
  EXPECT_EQ(list(kAnswer), grpc::StatusCode::OK);
}

TEST_F(ControlServerTest, AChangeIsAnsweredOnceTheDaemonHasIt) {
  Serve();
  const auto stub = Client();
  // The daemon reads nothing: there is room for a few changes of so many bytes.
  std::vector<std::string> made;
  for (int i = 0; i < 18; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    CreateRequest wanted;
    wanted.set_name("v" + std::to_string(i));
    wanted.set_request_id(wanted.name());
    wanted.mutable_spec()->set_request(0.01);
    for (int owner = 0; owner < 60; ++owner)
      wanted.mutable_spec()->mutable_owners()->add_holders("name:" + std::to_string(1'000 + owner) + std::string(90, 'x'));
    Vgpu vgpu;
    const grpc::Status status = stub->Create(&context, wanted, &vgpu);
    if (!status.ok()) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
      break;
    }
    made.push_back(wanted.name());
  }
  EXPECT_GE(made.size(), 2u);
  EXPECT_GE(CountOfVgpus(*stub), made.size()) << "who looks does not wait";
  broker_->End(SIGKILL);
  std::string kept;
  AnsweredRequests answered;
  for (const SocketMessage& message : broker_->Rest()) {
    if (Result<KeptMessage> said = KeptMessage::Decode(message.bytes); said.ok()) kept = said->text;
    if (Result<AnsweredMessage> said = AnsweredMessage::Decode(message.bytes); said.ok()) answered.Add(said->request);
  }
  for (const std::string& name : made) {
    EXPECT_THAT(kept, HasSubstr("name = \"" + name + "\"\n"));
    EXPECT_NE(answered.Find(Me(), name), nullptr) << name;
  }
}

// Beside callers who call as often as they can the daemon is answered.
TEST_F(ControlServerTest, AFloodKeepsNobodyFromTheBroker) {
  constexpr int kAsks = 200;
  Serve();
  std::string file;
  for (int i = 0; i < 100; ++i) file += "[[vgpu]]\nname = 'v" + std::to_string(i) + "'\n";
  EXPECT_EQ(broker_->TakeFile(file).code, StatusCode::kOk);
  const auto median_us = [&] {
    std::vector<uint64_t> took_ns;
    for (int i = 0; i < kAsks; ++i) {
      const uint64_t begin_ns = MonotonicNs();
      broker_->Send(AskMessage{static_cast<uint64_t>(i), "v7", "uid:1"});
      EXPECT_EQ(broker_->Next<AskAnswer>().id, static_cast<uint64_t>(i));
      took_ns.push_back(MonotonicNs() - begin_ns);
    }
    std::ranges::sort(took_ns);
    return static_cast<int>(took_ns[kAsks / 2] / 1'000);
  };
  const int alone_us = median_us();
  std::atomic<bool> ends = false;
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      const auto stub = Client();
      while (!ends) {
        VgpuList list;
        answered += stub->List(Context().get(), ListRequest(), &list).ok() ? 1 : 0;
      }
    });
  }
  while (answered < 20) std::this_thread::yield();
  const int before = answered;
  int beside_us = 0;
  do beside_us = median_us();
  while (answered < before + 20);
  ends = true;
  for (std::thread& caller : callers) caller.join();
  RecordProperty("alone_us", alone_us);
  RecordProperty("beside_a_flood_us", beside_us);
  RecordProperty("calls_meanwhile", answered - before);
}

TEST_F(ControlServerTest, ManyConnectionsComeAndGo) {
  Serve();
  for (int i = 0; i < 100; ++i) {
    const auto stub = Client();
    const auto context = Context();
    const auto reader = stub->Watch(context.get(), ListRequest());
    VgpuList list;
    ASSERT_TRUE(reader->Read(&list)) << i;
    context->TryCancel();
    (void)reader->Finish();
  }
  EXPECT_EQ(CountOfVgpus(*Client()), 0u);
}

TEST_F(ControlServerTest, NothingIsStartedBeforeSomebodyConnects) {
  const auto threads = [](BrokerProcess& broker) {
    EXPECT_EQ(broker.TakeFile("[[vgpu]]\nname = 'f'\n").code, StatusCode::kOk);
    const std::string tasks = "/proc/" + std::to_string(broker.pid()) + "/task";
    return std::distance(std::filesystem::directory_iterator(tasks), std::filesystem::directory_iterator());
  };
  BrokerProcess without;
  EXPECT_EQ(threads(without), 1);
  Serve();
  EXPECT_EQ(threads(*broker_), 2);
  EXPECT_EQ(CountOfVgpus(*Client()), 1u);
  EXPECT_GT(threads(*broker_), 2);
}

TEST_F(ControlServerTest, ItTakesLittleMemory) {
  Serve();
  EXPECT_EQ(CountOfVgpus(*Client()), 0u);
  const size_t kib = UnsharedKib();
  RecordProperty("unshared_kib", static_cast<int>(kib));
  EXPECT_GT(kib, 0u);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(kib, 40u * 1024);
#endif
}

}  // namespace
}  // namespace tessera
