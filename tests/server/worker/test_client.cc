#include "tests/server/worker/test_client.h"

#include <algorithm>
#include <cstring>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {
constexpr uint64_t kHash = 42;
uint64_t InMs(int ms) { return MonotonicNs() + uint64_t(ms) * 1'000'000; }
}  // namespace

TestClient::TestClient(const DriverTable& driver, const ChannelSizes& sizes, const WorkerOptions& options, bool mirrored) {
  auto [near, far] = MakeSocketPair().value();
  std::thread server([&, socket = std::move(far)]() mutable {
    Result<ClientHello> hello = ReceiveHello(socket.get(), kHash, InMs(10'000));
    CHECK(hello.ok());
    ServerWelcome welcome;
    welcome.spec_hash = kHash;
    welcome.sizes = hello->sizes;
    welcome.mirrored = hello->mirrored;
    Result<std::unique_ptr<Channel>> channel = Channel::Create(std::move(socket), &welcome, InMs(10'000));
    CHECK(channel.ok());
    server_ = std::move(channel).value();
  });
  ClientHello hello;
  hello.spec_hash = kHash;
  hello.sizes = sizes;
  hello.mirrored = mirrored;
  ServerWelcome welcome;
  Result<std::unique_ptr<Channel>> channel = Channel::Attach(std::move(near), hello, &welcome, InMs(10'000));
  server.join();
  CHECK(channel.ok());
  client_ = std::move(channel).value();
  worker_ = std::make_unique<Worker>(*server_, driver, options);
  executor_ = std::make_unique<Executor>(*worker_);
  thread_ = std::thread([this] { why_ = executor_->Run(); });
}

TestClient::~TestClient() {
  client_->Leave();
  if (thread_.joinable()) thread_.join();
  executor_.reset();
  worker_.reset();
}

uint64_t TestClient::Send(uint32_t call, uint32_t flags, uint32_t thread, HandleId context, std::span<const std::byte> message) {
  RecordHeader header{};
  header.call = call;
  header.flags = flags;
  header.thread = thread;
  header.sequence = ++sequence_;
  header.context = context.value();
  return SendHeader(header, message);
}

uint64_t TestClient::SendHeader(RecordHeader header, std::span<const std::byte> message) {
  std::vector<std::byte> record(PaddedRecordBytes(sizeof(header) + message.size()));
  std::memcpy(record.data(), &header, sizeof(header));
  if (!message.empty()) std::memcpy(record.data() + sizeof(header), message.data(), message.size());
  RingProducer& out = client_->commands_out();
  while (!out.TryAppend(record)) {
    if (!out.WaitForSpace(record.size(), InMs(10'000), client_->stop()).ok()) return 0;
  }
  return header.sequence;
}

std::optional<TestReply> TestClient::Next(int timeout_ms) {
  RingConsumer& in = client_->replies_in();
  RecordBuffer buffer;
  std::span<const std::byte> record = in.CopyOut(&buffer);
  if (record.empty()) {
    if (!in.Wait(InMs(timeout_ms), client_->stop()).ok()) return std::nullopt;
    record = in.CopyOut(&buffer);
    if (record.empty()) return std::nullopt;
  }
  TestReply reply;
  std::memcpy(&reply.header, record.data(), sizeof(reply.header));
  reply.payload.assign(record.begin() + sizeof(reply.header), record.end());
  return reply;
}

void TestClient::Answer(uint64_t request) {
  ReplyHeader header{};
  header.size_bytes = sizeof(header);
  header.kind = static_cast<uint32_t>(AnswerKind::kHostFunctionDone);
  header.extra = request;
  CHECK(client_->answers_out().TryAppend(std::as_bytes(std::span(&header, 1))));
}

uint64_t TestClient::SendAside(uint32_t call, uint64_t after, std::span<const std::byte> message) {
  RecordHeader record{};
  record.size_bytes = static_cast<uint32_t>(PaddedRecordBytes(sizeof(record) + message.size()));
  record.call = call;
  record.flags = kWantsReply;
  record.thread = 1;
  record.sequence = kAsideSequence | ++aside_;
  ReplyHeader header{};
  header.size_bytes = static_cast<uint32_t>(sizeof(header)) + record.size_bytes;
  header.kind = static_cast<uint32_t>(AnswerKind::kAside);
  header.extra = after;
  std::vector<std::byte> bytes(header.size_bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), &record, sizeof(record));
  std::copy(message.begin(), message.end(), bytes.begin() + sizeof(header) + sizeof(record));
  CHECK(client_->answers_out().TryAppend(bytes));
  return record.sequence;
}

Status TestClient::Join() {
  if (thread_.joinable()) thread_.join();
  return why_;
}

}  // namespace tessera
