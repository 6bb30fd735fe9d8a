#include "netaware/node/placer_line.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "netaware/node/node_means.h"
#include "netaware/node/patience.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

int64_t NowMs() { return static_cast<int64_t>(MonotonicNs() / 1'000'000); }

}  // namespace

void PlacerLine::Start() {
  if (std::exchange(is_started_, true)) return;
  std::thread([this] { Run(); }).detach();
}

void PlacerLine::Run() {
  Patience patience;
  for (;;) {
    bool was_welcome = false;
    const Status why = Attach(&was_welcome);
    if (was_welcome) patience.Reset();
    if (patience.IsNews(why.message())) {
      LogWarning("no placer: {}; it is tried again and again, and what was granted goes on", why.message());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(patience.NextMs()));
  }
}

// Returns when the stream has ended.
Status PlacerLine::Attach(bool* was_welcome) {
  Result<RpcConnection> connection = ConnectRpc(url_, keys_, kPlacerPeer, kWhenNoPlacer, kRpcConnectNs, means_);
  if (!connection.ok()) return connection.status();
  const auto stub = control::v1::NodeService::NewStub(connection->channel);
  std::atomic<bool> welcome = false;
  std::shared_ptr<PlacerStream> stream;
  stream = std::make_shared<PlacerStream>(queue_,
                                          [this, &stream](const control::v1::ToNode& message) { Heard(stream.get(), message); });
  queue_.Push([this, stream, &stub] { Began(stream, *stub); });
  const Status ended = stream->Wait();
  // Waits until the node's thread has handled the stream's messages, which are earlier in the queue and refer to `stream`.
  std::atomic<bool> is_told = false;
  queue_.Push([&] {
    welcome = is_welcome_;
    is_welcome_ = false;
    stream_.reset();
    listener_.lost();
    is_told = true;
    is_told.notify_one();
  });
  is_told.wait(false);
  *was_welcome = welcome;
  const Status failure = connection->failure();
  return failure.ok() ? ended : failure;
}

void PlacerLine::Began(std::shared_ptr<PlacerStream> stream, control::v1::NodeService::Stub& stub) {
  stream_ = std::move(stream);
  stream_->Begin(stub);
  is_welcome_ = false;
  heard_ms_ = NowMs();
  stream_->Send(listener_.registration());
}

void PlacerLine::Heard(const PlacerStream* stream, const control::v1::ToNode& message) {
  if (stream_.get() != stream) return;  // the message is from a stream that is ending
  heard_ms_ = NowMs();
  if (!message.has_welcome() && !is_welcome_) return End("it sends orders to a server that it has not taken");
  if (const Status status = listener_.heard(message); !status.ok()) return End(status.message());
  if (message.has_welcome() && !std::exchange(is_welcome_, true)) LogInfo("the placer at {} has taken this server", url_);
}

void PlacerLine::Send(control::v1::FromNode message) {
  if (stream_ != nullptr) stream_->Send(std::move(message));
}

void PlacerLine::End(const std::string& why) {
  if (stream_ != nullptr) stream_->End(why);
  stream_.reset();
}

void PlacerLine::Tend(int64_t now_ms) {
  if (now_ms - heard_ms_ >= kSilentMs) End("the placer at " + url_ + " says nothing");
}

}  // namespace tessera
