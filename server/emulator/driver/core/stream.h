// A stream: a queue of work that one thread at a time takes from, in order. What the work is, the stream does not know.
//
// Locks: a stream's own lock guards its queue and tail. Context::Submit orders appends over all streams of a context.
// Source: CUDA driver API, "Stream Management" and "Stream synchronization behavior".
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/emulator/driver/base/api.h"
#include "server/emulator/driver/base/fence.h"
#include "server/emulator/driver/base/threads.h"

namespace tessera::emulator {

struct Capture;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // kLegacy waits for all blocking streams and they for it; kBlocking; kNonBlocking knows nothing of the legacy stream.
  enum class Type { kLegacy, kBlocking, kNonBlocking };
  // `threads` run what is appended, and outlive the stream.
  Stream(Threads& threads, uint64_t context_handle, Type type, int priority, uint64_t id)
      : threads_(threads), context_handle_(context_handle), type_(type), priority_(priority), id_(id) {}

  Type type() const { return type_; }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }
  uint64_t context_handle() const { return context_handle_; }
  bool is_legacy() const { return type_ == Type::kLegacy; }

  // Completion of the newest work; null when there never was one. Any thread.
  FencePtr tail() const;
  // Blocks while as much work waits as the device's queue holds (Options::queue_commands), like a launch on a device.
  // Before anything is given to the stream; with no lock held.
  void WaitForRoom();
  // Appends what runs when all of `after` is done; `fence` completes when it has run and what it held is gone. Called by the
  // stream's context only.
  void Append(std::function<void()> work, std::vector<FencePtr> after, FencePtr fence);

  uint64_t handle = 0;  // 0 for the legacy and the per-thread streams; set before the stream is published
  std::atomic<bool> destroyed{false};
  std::shared_ptr<Capture> capture;                   // guarded by Driver::graph_mutex
  std::vector<uint64_t> capture_dependencies;         // node handles, guarded by Driver::graph_mutex
  std::vector<CUgraphNode> capture_dependencies_out;  // what cuStreamGetCaptureInfo hands out, guarded likewise
  std::vector<CUgraphEdgeData> capture_edges_out;
  std::mutex attribute_mutex;
  std::map<int, CUlaunchAttributeValue> attributes;  // guarded by attribute_mutex

 private:
  struct Entry {
    std::function<void()> work;
    std::vector<FencePtr> after;
    FencePtr fence;
  };
  void Drain();

  Threads& threads_;
  const uint64_t context_handle_;
  const Type type_;
  const int priority_;
  const uint64_t id_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::deque<Entry> queue_;
  FencePtr tail_;
  bool draining_ = false;
};
using StreamPtr = std::shared_ptr<Stream>;

}  // namespace tessera::emulator
