// One stream of NodeService.Attach. It passes the received messages to the node's thread by its queue, and stops reading while
// kReadAhead messages wait there.
//
//   const auto stream = std::make_shared<PlacerStream>(queue, [&](const ToNode& message) { ... });
//   stream->Begin(*stub);                     // once
//   stream->Send(message);                    // any thread; does nothing after the end of the stream
//   stream->End("heard nothing for 15 s");    // any thread
//   const Status why = stream->Wait();        // any thread but the node's
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "generated/control/node.grpc.pb.h"
#include "netaware/node/node_queue.h"
#include "protocol/base/mutex.h"
#include "protocol/base/status.h"

namespace tessera {

class PlacerStream : public grpc::ClientBidiReactor<control::v1::FromNode, control::v1::ToNode>,
                     public std::enable_shared_from_this<PlacerStream> {
 public:
  static constexpr size_t kReadAhead = 256;    // messages that wait for the node's thread
  static constexpr size_t kUnsentMax = 4'096;  // messages that wait for the placer

  // `heard` runs in the node's thread.
  PlacerStream(NodeQueue& queue, std::function<void(const control::v1::ToNode&)> heard)
      : queue_(queue), heard_(std::move(heard)) {}

  void Begin(control::v1::NodeService::Stub& stub);
  void Send(control::v1::FromNode message) EXCLUDES(mutex_);
  // Ends the stream. Only the first reason is kept.
  void End(const std::string& why) EXCLUDES(mutex_);
  // Blocks until the stream has ended and gRPC does not use it any more. Returns the reason.
  Status Wait() EXCLUDES(mutex_);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void Handled() EXCLUDES(mutex_);

  NodeQueue& queue_;
  const std::function<void(const control::v1::ToNode&)> heard_;
  grpc::ClientContext context_;
  control::v1::ToNode read_;

  Mutex mutex_;
  ConditionVariable ended_;
  std::deque<control::v1::FromNode> unsent_ GUARDED_BY(mutex_);  // the first one is being written
  size_t unhandled_ GUARDED_BY(mutex_) = 0;
  bool rests_ GUARDED_BY(mutex_) = false;  // reading is paused
  bool is_over_ GUARDED_BY(mutex_) = false;
  std::string why_ GUARDED_BY(mutex_);
  std::optional<Status> done_ GUARDED_BY(mutex_);
};

}  // namespace tessera
