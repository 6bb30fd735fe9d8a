// The node's connection to the placer. It reconnects whenever the stream ends: after 0.1 s, then after twice the delay each
// time, up to 5 s.
//
//   PlacerLine line(url, keys, means, queue, {.registration = ..., .heard = ..., .lost = ...});
//   line.Start();                      // once the server's description is known
//   line.Send(message);
//   line.Tend(now_ms);                 // every second
//
// All methods are called in the node's thread, and the listener's functions run there too. A separate thread connects; it runs
// until the process ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "generated/control/node.pb.h"
#include "netaware/node/node_queue.h"
#include "netaware/node/placer_stream.h"
#include "protocol/base/status.h"
#include "protocol/link/link_options.h"
#include "protocol/rpc/rpc_client.h"

namespace tessera {

class PlacerLine {
 public:
  static constexpr int64_t kSilentMs = 15'000;  // a stream without a message for this time is ended

  struct Listener {
    std::function<control::v1::FromNode()> registration;  // returns the first message of a new stream
    // Receives each message. Not Ok: the stream is ended.
    std::function<Status(const control::v1::ToNode&)> heard;
    std::function<void()> lost;
  };

  // `queue` has to outlive all threads of the process.
  PlacerLine(std::string url, KeyFiles keys, RpcMeans means, NodeQueue& queue, Listener listener)
      : url_(std::move(url)), keys_(std::move(keys)), means_(std::move(means)), queue_(queue), listener_(std::move(listener)) {}

  // Later calls do nothing.
  void Start();
  void Send(control::v1::FromNode message);
  void End(const std::string& why);
  void Tend(int64_t now_ms);
  // True if the placer has accepted this node on the current stream.
  bool is_welcome() const { return stream_ != nullptr && is_welcome_; }

 private:
  void Run();
  Status Attach(bool* was_welcome);
  void Began(std::shared_ptr<PlacerStream> stream, control::v1::NodeService::Stub& stub);
  void Heard(const PlacerStream* stream, const control::v1::ToNode& message);

  const std::string url_;
  const KeyFiles keys_;
  const RpcMeans means_;
  NodeQueue& queue_;
  const Listener listener_;
  // Used by the node's thread alone.
  bool is_started_ = false;
  std::shared_ptr<PlacerStream> stream_;  // null: there is none, or it is ending
  bool is_welcome_ = false;
  int64_t heard_ms_ = 0;
};

}  // namespace tessera
