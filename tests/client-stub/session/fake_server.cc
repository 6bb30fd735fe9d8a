#include "tests/client-stub/session/fake_server.h"

#include <sys/socket.h>

#include <bit>
#include <cstring>

#include "client-stub/session/client.h"
#include "generated/spec_hash.h"
#include "protocol/base/check.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

constexpr uint64_t kHandshakeNs = 10'000'000'000;

}  // namespace

DeviceSnapshot TestSnapshot() {
  DeviceSnapshot snapshot;
  snapshot.driver_version = 13000;
  for (int d = 0; d < 2; ++d) {
    DeviceSnapshot::Device device;
    device.name = "Test Device " + std::to_string(d);
    for (int i = 0; i < 16; ++i) device.uuid[i] = static_cast<uint8_t>(0x10 * (d + 1) + i);
    std::memcpy(device.uuid_v2, device.uuid, sizeof(device.uuid));
    device.total_bytes = uint64_t{8} << 30;
    device.pci_bus_id = d == 0 ? "0000:02:00.0" : "0001:0a:00.0";
    device.luid_result = CUDA_ERROR_NOT_SUPPORTED;
    device.least_stream_priority = 0;
    device.greatest_stream_priority = -5;
    device.attributes.resize(CU_DEVICE_ATTRIBUTE_MAX, DeviceSnapshot::Answer{0, 1});
    device.attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE].value = 32;
    device.attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID].value = d;
    device.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID].value = d == 0 ? 2 : 10;
    device.attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID].value = 0;
    snapshot.devices.push_back(device);
  }
  snapshot.p2p_attributes = 2;
  snapshot.p2p.resize(2 * 2 * 2);
  snapshot.p2p[(0 * 2 + 1) * 2 + 1].value = 1;  // 0 reaches 1, not the other way round
  return snapshot;
}

FakeServer::FakeServer(Handler handler, DeviceSnapshot snapshot) : handler_(std::move(handler)) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  std::thread handshake([&, socket = ends[0]] {
    UniqueFd own(socket);
    Result<ClientHello> hello = ReceiveHello(own.get(), kSpecHash, MonotonicNs() + kHandshakeNs);
    CHECK(hello.ok());
    ServerWelcome welcome;
    welcome.spec_hash = kSpecHash;
    welcome.session_index = hello->session_index;
    welcome.window_row = static_cast<uint32_t>(std::countr_zero(hello->window_rows));
    welcome.sizes = hello->sizes;
    welcome.server = "fake";
    snapshot.selection = hello->devices;
    Encoder out;
    snapshot.Encode(out);
    welcome.snapshot.assign(out.bytes().begin(), out.bytes().end());
    Result<std::unique_ptr<Channel>> channel = Channel::Create(std::move(own), &welcome, MonotonicNs() + kHandshakeNs);
    CHECK(channel.ok());
    channel_ = std::move(*channel);
  });
  Result<std::unique_ptr<Session>> session = Session::Connect(UniqueFd(ends[1]));
  handshake.join();
  CHECK(session.ok());
  session_ = std::move(*session);
  thread_ = std::thread([this] { Serve(); });
  Client::Get().UseSessionForTest(session_.get());
}

FakeServer::~FakeServer() {
  while (ThreadState::Current().current() != nullptr) ThreadState::Current().context_stack.pop_back();
  Client::Get().UseSessionForTest(nullptr);
  session_.reset();
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void FakeServer::Serve() {
  RecordBuffer buffer;
  while (!stop_) {
    const std::span<const std::byte> record = channel_->commands_in().CopyOut(&buffer);
    if (record.empty()) {
      if (!channel_->commands_in().Wait(kNoDeadline, channel_->stop()).ok()) return;
      continue;
    }
    RecordHeader header;
    std::memcpy(&header, record.data(), sizeof(header));
    {
      MutexLock lock(mutex_);
      headers_.push_back(header);
    }
    if (handler_) {
      handler_(*this, header, record.subspan(sizeof(header)));
    } else if ((header.flags & kWantsReply) != 0) {
      Reply(header, CUDA_SUCCESS);
    }
  }
}

void FakeServer::Send(const ReplyHeader& header, std::span<const std::byte> payload) {
  std::vector<std::byte> record(PaddedRecordBytes(sizeof(header) + payload.size()));
  std::memcpy(record.data(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(record.data() + sizeof(header), payload.data(), payload.size());
  MutexLock lock(send_mutex_);
  while (!channel_->replies_out().TryAppend(record)) {
    if (!channel_->replies_out().WaitForSpace(record.size(), kNoDeadline, channel_->stop()).ok()) return;
  }
}

void FakeServer::Reply(const RecordHeader& header, CUresult result, std::span<const std::byte> message) {
  ReplyHeader reply{};
  reply.kind = static_cast<uint32_t>(ReplyKind::kReply);
  reply.sequence = header.sequence;
  reply.thread = header.thread;
  reply.result = result;
  Send(reply, message);
}

void FakeServer::Notice(NoticeKind kind, uint64_t extra, CUresult result, uint32_t thread, std::span<const std::byte> payload) {
  ReplyHeader notice{};
  notice.kind = static_cast<uint32_t>(kind);
  notice.result = result;
  notice.thread = thread;
  notice.extra = extra;
  Send(notice, payload);
}

void FakeServer::Die() { shutdown(channel_->socket(), SHUT_RDWR); }

size_t FakeServer::Count(uint32_t call) {
  MutexLock lock(mutex_);
  size_t count = 0;
  for (const RecordHeader& header : headers_) count += header.call == call;
  return count;
}

std::vector<RecordHeader> FakeServer::Headers() {
  MutexLock lock(mutex_);
  return headers_;
}

}  // namespace tessera
