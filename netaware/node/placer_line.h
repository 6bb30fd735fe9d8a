// The node's connection to the placer, which is made again whenever it ends: after 0.1 s, then twice as long each time, up to 5
// s.
//
//   PlacerLine line(url, keys, means, queue, {.registration = ..., .heard = ..., .lost = ...});
//   line.Start();                      // the server is known: from then on
//   line.Send(message);
//   line.Tend(now_ms);                 // every second
//
// The functions are called in the node's thread, and all of this is called there. A thread of its own connects; it goes on until
// the process ends.
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
  static constexpr int64_t kSilentMs = 15'000;  // a stream that says nothing for so long is ended

  struct Listener {
    std::function<control::v1::FromNode()> registration;  // of a stream that has begun
    // Not Ok: the stream is ended.
    std::function<Status(const control::v1::ToNode&)> heard;
    std::function<void()> lost;
  };

  // `queue` outlives the process's threads.
  PlacerLine(std::string url, KeyFiles keys, RpcMeans means, NodeQueue& queue, Listener listener)
      : url_(std::move(url)), keys_(std::move(keys)), means_(std::move(means)), queue_(queue), listener_(std::move(listener)) {}

  // Does nothing the second time.
  void Start();
  void Send(control::v1::FromNode message);
  void End(const std::string& why);
  void Tend(int64_t now_ms);
  // The placer has taken this node by the present stream.
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
  // Of the node's thread.
  bool is_started_ = false;
  std::shared_ptr<PlacerStream> stream_;  // null: there is none, or it is about to end
  bool is_welcome_ = false;
  int64_t heard_ms_ = 0;
};

}  // namespace tessera
