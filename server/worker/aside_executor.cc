#include "server/worker/aside_executor.h"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/wire/record.h"
#include "server/worker/execute_record.h"
#include "server/worker/reply_writer.h"
#include "server/worker/worker.h"

namespace tessera {

AsideExecutor::~AsideExecutor() { Stop(); }

bool AsideExecutor::Post(uint64_t after, std::span<const std::byte> record) {
  if (record.size() < sizeof(RecordHeader)) return false;
  MutexLock lock(mutex_);
  if (stopped_) return true;  // the session is over
  if (items_.size() >= kQueuedMax) return false;
  items_.push_back({after, {record.begin(), record.end()}});
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  posted_.notify_one();
  return true;
}

void AsideExecutor::Stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    items_.clear();
    thread = std::move(thread_);
  }
  posted_.notify_all();
  if (thread.joinable()) thread.join();
}

void AsideExecutor::Loop() {
  pthread_setname_np(pthread_self(), "tessera-aside");
  for (;;) {
    Item item;
    {
      MutexLock lock(mutex_);
      while (items_.empty() && !stopped_) posted_.wait(mutex_);
      if (stopped_) return;
      item = std::move(items_.front());
      items_.pop_front();
    }
    Run(item);
  }
}

void AsideExecutor::Run(const Item& item) {
  RecordHeader header;
  std::memcpy(&header, item.record.data(), sizeof(header));
  const bool good = IsWellFormed(header) && (header.flags & kWantsReply) != 0 && (header.sequence & kAsideSequence) != 0 &&
                    IsAside(header.call);
  if (!good) return RefuseHeader(worker_, header);
  if (!Reached(item.after)) {
    ReplyHeader reply{};
    reply.kind = static_cast<uint32_t>(ReplyKind::kReply);
    reply.sequence = header.sequence;
    reply.thread = header.thread;
    reply.result = kAsideBehind;
    worker_.replies().Send(reply, {});
    return;
  }
  ExecuteRecord(worker_, header, std::span(item.record).subspan(sizeof(header)));
}

bool AsideExecutor::Reached(uint64_t after) const {
  uint64_t executed = worker_.executed();
  uint64_t since_ns = MonotonicNs();
  while (executed < after) {
    if (worker_.ended() || MonotonicNs() - since_ns > kStandstillNs) return false;
    usleep(20);
    const uint64_t now = worker_.executed();
    if (now != executed) since_ns = MonotonicNs();
    executed = now;
  }
  return true;
}

}  // namespace tessera
