#include "client-stub/graphs/graph_source.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace tessera {

bool GraphSource::Claim(HandleId exec) {
  MutexLock lock(mutex);
  if (owner.is_null()) owner = exec;
  return owner == exec;
}

uint64_t GraphSource::Read(Session& session, HandleId exec) {
  std::vector<std::byte> bytes(rows.bytes());
  rows.Pack(bytes.data());
  MutexLock lock(mutex);
  const auto in_the_way = [&](const Snapshot& other) { return other.exec != exec && other.bytes != bytes; };
  while (std::any_of(snapshots.begin(), snapshots.end(), in_the_way)) {
    if (session.gone()) return 0;
    used.wait_for(mutex, std::chrono::milliseconds(10));
  }
  snapshots.push_back({++last_number, exec, std::move(bytes)});
  return last_number;
}

void GraphSource::Drop(uint64_t number) {
  MutexLock lock(mutex);
  std::erase_if(snapshots, [&](const Snapshot& snapshot) { return snapshot.number == number; });
  used.notify_all();
}

void GraphSource::Use(std::byte* to) {
  std::vector<std::byte> bytes;
  {
    MutexLock lock(mutex);
    if (!snapshots.empty()) {
      bytes = std::move(snapshots.front().bytes);
      snapshots.pop_front();
      used.notify_all();
    }
  }
  if (bytes.empty()) return rows.Pack(to);
  std::memcpy(to, bytes.data(), bytes.size());
}

void GraphSources::Add(uint64_t visit, const std::shared_ptr<GraphSource>& source) {
  MutexLock lock(mutex_);
  std::erase_if(sources_, [](const auto& entry) { return entry.second.expired(); });
  sources_[visit] = source;
  used_.store(true, std::memory_order_release);
}

std::shared_ptr<GraphSource> GraphSources::Find(uint64_t visit) {
  MutexLock lock(mutex_);
  const auto found = sources_.find(visit);
  return found == sources_.end() ? nullptr : found->second.lock();
}

}  // namespace tessera
