#include "protocol/channel/mirror.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr uint64_t kHandshakeTimeoutNs = 60'000'000'000;
constexpr int kWatchSliceMs = 50;

}  // namespace

std::unique_ptr<Mirror> Mirror::Start(UniqueFd client_socket, UniqueFd server_socket) {
  std::unique_ptr<Mirror> mirror(new Mirror());
  mirror->ends_[0].reset(fcntl(client_socket.get(), F_DUPFD_CLOEXEC, 0));
  mirror->ends_[1].reset(fcntl(server_socket.get(), F_DUPFD_CLOEXEC, 0));
  mirror->run_thread_ = std::thread([mirror = mirror.get(), client = std::move(client_socket),
                                     server = std::move(server_socket)]() mutable {
    mirror->Run(std::move(client), std::move(server));
  });
  return mirror;
}

Mirror::~Mirror() {
  stopping_.store(true, std::memory_order_release);
  HangUp();
  run_thread_.join();
}

void Mirror::HangUp() {
  // Ends the connections, whoever holds descriptors of them.
  for (const UniqueFd& end : ends_) shutdown(end.get(), SHUT_RDWR);
}

void Mirror::Run(UniqueFd client_socket, UniqueFd server_socket) {
  const Status status = Handshake(std::move(client_socket), std::move(server_socket));
  if (!status.ok()) {
    LogDebug("mirror: no session: {}", status.message());
    HangUp();
    return;
  }
  StartMovers();
  WatchSockets();
  for (std::thread& thread : threads_) thread.join();
  HangUp();
}

Status Mirror::Handshake(UniqueFd client_socket, UniqueFd server_socket) {
  const uint64_t deadline_ns = MonotonicNs() + kHandshakeTimeoutNs;
  Result<SocketMessage> message = ReceiveMessage(client_socket.get(), kControlMessageBytesMax, deadline_ns);
  if (!message.ok()) return message.status();
  Result<ClientHello> hello = ClientHello::Decode(message->bytes);
  if (!hello.ok()) return hello.status();
  const Status version = CheckPeerVersion("client", hello->wire_version, hello->spec_hash, hello->spec_hash);
  if (!version.ok()) {
    Refuse(client_socket.get(), version);
    return version;
  }
  hello->mirrored = true;
  ServerWelcome welcome;
  Result<std::unique_ptr<Channel>> server = Channel::Attach(std::move(server_socket), *hello, &welcome, deadline_ns);
  if (!server.ok()) {
    Refuse(client_socket.get(), server.status());
    return server.status();
  }
  Result<std::unique_ptr<Channel>> client = Channel::Create(std::move(client_socket), &welcome, deadline_ns);
  if (!client.ok()) {
    (*server)->Fail(client.status());
    return client.status();
  }
  client_ = std::move(*client);
  server_ = std::move(*server);
  return Status::Ok();
}

void Mirror::StartMovers() {
  to_server_.from = to_client_.to = client_.get();
  to_server_.to = to_client_.from = server_.get();
  to_server_.movers = 2;
  to_client_.movers = 1;
  client_->SetMessageHandler([this](SocketMessage message) { return PassOn(*client_, *server_, message); });
  server_->SetMessageHandler([this](SocketMessage message) { return PassOn(*server_, *client_, message); });
  threads_.emplace_back([this] { MoveRecords(to_server_, client_->commands_in(), server_->commands_out()); });
  threads_.emplace_back([this] { MoveRecords(to_server_, client_->answers_in(), server_->answers_out()); });
  threads_.emplace_back([this] { MoveRecords(to_client_, server_->replies_in(), client_->replies_out()); });
  threads_.emplace_back([this] { MoveTransfers(to_server_); });
  threads_.emplace_back([this] { MoveTransfers(to_client_); });
}

void Mirror::MoveRecords(Direction& direction, RingConsumer& in, RingProducer& out) {
  Status status;
  while (status.ok()) {
    status = in.Wait(kNoDeadline, direction.from->stop());
    if (status.ok()) status = MoveBatch(direction, in, out);
  }
  if (direction.movers.fetch_sub(1) != 1) return;
  // Everything that the peer of `from` had said was passed on; now its end is.
  if (direction.from->peer_left()) {
    direction.to->Leave();
  } else {
    direction.to->Fail(status);
  }
}

Status Mirror::MoveBatch(Direction& direction, RingConsumer& in, RingProducer& out) {
  // First how far the records go, then the offers and ranges they may need: those were made before the records.
  const uint64_t end = in.Published();
  Status ended = direction.from->ProcessSocket();  // also takes last words; records that came before them still count
  if (ended.code() == StatusCode::kProtocolViolation) return ended;
  RETURN_IF_ERROR(ApplyTransfers(direction));
  while (in.position() != end) {
    const std::span<const std::byte> record = in.Peek();
    if (record.empty()) break;
    std::byte* to = out.TryReserve(record.size());
    while (to == nullptr) {
      RETURN_IF_ERROR(out.WaitForSpace(record.size(), kNoDeadline, direction.to->stop()));
      to = out.TryReserve(record.size());
    }
    std::memcpy(to, record.data(), record.size());
    out.Commit();
    in.Release();
  }
  if (in.broken()) return Status(StatusCode::kProtocolViolation, "the peer broke the rules of a ring");
  return Status::Ok();
}

void Mirror::MoveTransfers(Direction& direction) {
  Status status;
  while (status.ok()) {
    // Several threads take ranges out under the mutex: a record seen here may be gone before we have it.
    status = direction.from->transfers_in().Wait(kNoDeadline, direction.from->stop());
    if (status.ok()) status = ApplyTransfers(direction);
  }
  if (direction.from->Check().ok()) direction.from->Fail(status);  // otherwise the movers of records pass the end on
}

Status Mirror::ApplyTransfers(Direction& direction) {
  MutexLock lock(apply_mutex_);
  RingConsumer& in = direction.from->transfers_in();
  for (;;) {
    const std::span<const std::byte> record = in.Peek();
    if (record.empty()) break;
    if (record.size() != sizeof(TransferRecord)) {
      return Status(StatusCode::kProtocolViolation, "the peer sent a malformed transfer");
    }
    TransferRecord transfer;
    std::memcpy(&transfer, record.data(), sizeof(transfer));
    in.Release();
    RETURN_IF_ERROR(ApplyTransfer(direction, transfer));
  }
  if (in.broken()) return Status(StatusCode::kProtocolViolation, "the peer broke the rules of the transfers ring");
  return Status::Ok();
}

Status Mirror::ApplyTransfer(Direction& direction, const TransferRecord& transfer) {
  if (transfer.id != kTransferRecord || transfer.number != direction.last_number + 1) {
    return Status(StatusCode::kProtocolViolation, "the peer sent a transfer out of order");
  }
  direction.last_number = transfer.number;
  // Resolve takes the offer of a segment that is not known yet, which passes it on as well.
  const auto source = direction.from->Resolve(transfer.segment, transfer.offset, transfer.length);
  const auto target = direction.to->segments().Resolve(transfer.segment, transfer.offset, transfer.length);
  if (source.data() == nullptr || target.data() == nullptr) {
    if (IsClosed(transfer.segment)) return Status::Ok();  // nobody can look at it any more
    return Status(StatusCode::kProtocolViolation,
                  "the peer published a range outside of segment " + std::to_string(transfer.segment));
  }
  std::memcpy(target.data(), source.data(), source.size());
  direction.bytes.fetch_add(transfer.length, std::memory_order_relaxed);
  return Status::Ok();
}

Status Mirror::PassOn(Channel& from, Channel& to, const SocketMessage& message) {
  switch (ControlKindOf(message.bytes)) {
    case ControlKind::kSegmentOffer: {
      Result<SegmentOffer> offer = SegmentOffer::Decode(message.bytes);
      return offer.ok() ? PassOnOffer(from, to, *offer, message) : offer.status();
    }
    case ControlKind::kSegmentClose: {
      Result<SegmentClose> close = SegmentClose::Decode(message.bytes);
      return close.ok() ? PassOnClose(from, to, close->id) : close.status();
    }
    default:
      return Status(StatusCode::kProtocolViolation, "the peer sent a message that has no place in a session");
  }
}

Status Mirror::PassOnOffer(Channel& from, Channel& to, const SegmentOffer& offer, const SocketMessage& message) {
  if (message.fds.size() != 1 || offer.kind == SegmentKind::kSharedFile || offer.file_offset != 0 ||
      offer.size_bytes % kPageBytes != 0 || offer.size_bytes > kSegmentBytesMax) {
    return Status(StatusCode::kProtocolViolation, "the peer offered a segment that cannot be mirrored");
  }
  const int fd = message.fds[0].get();
  RETURN_IF_ERROR(CheckSegmentFile(fd, offer.size_bytes));
  Result<Mapping> original = Mapping::Map(fd, offer.size_bytes, 0, Placement::Anywhere());
  if (!original.ok()) return original.status();
  Result<UniqueFd> file = CreateSegmentFile("tessera-mirror", offer.size_bytes);
  if (!file.ok()) return file.status();
  Result<Mapping> copy = Mapping::Map(file->get(), offer.size_bytes, 0, Placement::Anywhere());
  if (!copy.ok()) return copy.status();
  RETURN_IF_ERROR(from.segments().Insert(offer.id, std::move(*original)));
  RETURN_IF_ERROR(to.segments().Insert(offer.id, std::move(*copy)));
  const int copy_fd = file->get();
  return to.SendControl(message.bytes, std::span(&copy_fd, 1));
}

Status Mirror::PassOnClose(Channel& from, Channel& to, uint32_t id) {
  MutexLock lock(closed_mutex_);
  if (closed_once_.insert(id).second) {
    // The other side may still use it: our two mappings go when it has closed it too.
    Encoder encoder;
    SegmentClose{id}.Encode(encoder);
    return to.SendControl(encoder.bytes(), {});
  }
  closed_twice_.insert(id);
  from.segments().Remove(id);
  to.segments().Remove(id);
  return Status::Ok();
}

bool Mirror::IsClosed(uint32_t id) {
  MutexLock lock(closed_mutex_);
  return closed_twice_.contains(id);
}

void Mirror::WatchSockets() {
  while (to_server_.movers.load() != 0 || to_client_.movers.load() != 0) {
    if (stopping_.load(std::memory_order_acquire)) {
      const Status stopped(StatusCode::kUnavailable, "the mirror was stopped");
      client_->Fail(stopped);
      server_->Fail(stopped);
    }
    pollfd poll_fds[2] = {{client_->socket(), POLLIN, 0}, {server_->socket(), POLLIN, 0}};
    poll(poll_fds, 2, kWatchSliceMs);
    const bool client_ok = client_->ProcessSocket().ok();
    const bool server_ok = server_->ProcessSocket().ok();
    // Hung-up sockets are always readable: no poll of them can wait any more.
    if (!client_ok || !server_ok) poll(nullptr, 0, 1);
  }
}

}  // namespace tessera
