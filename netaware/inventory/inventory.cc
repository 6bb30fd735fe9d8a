#include "netaware/inventory/inventory.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "protocol/base/bytes_text.h"

namespace tessera {
namespace {

template <typename Number>
Number LeftOf(Number all, Number first, Number second) {
  const Number left = all - std::min(all, first);
  return left - std::min(left, second);
}

Status NoServer(std::string_view id) {
  return Status(StatusCode::kNotFound, fmt::format("there is no server '{}' in the pool", id));
}

}  // namespace

GpuAmount Inventory::Gpu::Free() const {
  return {LeftOf(is.all.share, granted.share, others.share),
          LeftOf(is.all.memory_bytes, granted.memory_bytes, others.memory_bytes)};
}

std::string Inventory::Server::NotOffered(int64_t now_ns) const {
  if (closed) return closed->empty() ? "is cordoned" : "is cordoned: " + *closed;
  if (std::string away = Away(now_ns); !away.empty()) return away;
  if (gpus.empty()) return "has no GPU";
  return takes_tickets ? "" : "takes no tickets: its tesserad is to be started with --placer";
}

std::string Inventory::Server::Away(int64_t now_ns) const {
  if (!joined) return "has left";
  if (now_ns - heard_ns >= kSilentNs) return "is silent";
  return "";
}

// A server and its GPUs belong to the first holder that joined with them, until an administrator removes the server. So an
// attacker who controls one server cannot pose as another, or claim its GPUs.
Status Inventory::CheckHolder(const PoolServer& server) const {
  const auto is_others = [&](const Server& there) { return !there.holder.empty() && there.holder != server.holder; };
  size_t own = 0;
  for (const auto& [id, there] : servers_) {
    if (id == server.id) {
      if (!is_others(there)) continue;
      return Status(StatusCode::kPermissionDenied,
                    fmt::format("server '{}' is {}'s, and not {}'s: give this host another id (tessera-node --host-id), or, when "
                                "the other is gone for good, 'tessera remove {}' first",
                                id, there.holder, server.holder, id));
    }
    if (!server.holder.empty() && there.holder == server.holder) ++own;
    if (!is_others(there)) continue;
    for (const Gpu& gpu : there.gpus) {
      if (std::ranges::find(server.gpus, gpu.is.uuid, &PoolGpu::uuid) == server.gpus.end()) continue;
      return Status(StatusCode::kPermissionDenied,
                    fmt::format("{} is of server '{}', which is {}'s: when that is gone for good, 'tessera remove {}' first",
                                gpu.is.uuid, id, there.holder, id));
    }
  }
  if (own < kServersOfHolder) return Status::Ok();
  return Status(
      StatusCode::kResourceExhausted,
      fmt::format("{} has {} servers in the pool: give this host a certificate of its own, or 'tessera remove' those that "
                  "are gone for good",
                  server.holder, own));
}

Status Inventory::CheckJoin(const PoolServer& server) const {
  std::set<std::string_view> own;
  for (const PoolGpu& gpu : server.gpus) {
    if (!own.insert(gpu.uuid).second) {
      return Status(StatusCode::kInvalidArgument, fmt::format("server '{}' names {} twice", server.id, gpu.uuid));
    }
  }
  for (const auto& [id, there] : servers_) {
    if (id == server.id) {
      if (there.joined) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("a server '{}' is in the pool: give this host another id, or end the other", id));
      }
      continue;
    }
    for (const Gpu& gpu : there.gpus) {
      if (there.joined && own.contains(gpu.is.uuid)) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("{} of server '{}' is in the pool as one of server '{}'", gpu.is.uuid, server.id, id));
      }
    }
  }
  return Status::Ok();
}

bool Inventory::IsHeld(std::string_view server, uint32_t gpu) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
    return held.second.server == server &&
           std::any_of(held.second.gpus.begin(), held.second.gpus.end(), [&](const HeldGpu& one) { return one.gpu == gpu; });
  });
}

bool Inventory::IsHeld(std::string_view server) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& held) { return held.second.server == server; });
}

Status Inventory::Join(PoolServer server, int64_t now_ns) {
  RETURN_IF_ERROR(CheckJoin(server));
  RETURN_IF_ERROR(CheckHolder(server));
  std::vector<Gpu> gpus;
  for (PoolGpu& gpu : server.gpus) gpus.push_back({.is = std::move(gpu)});
  const auto there = servers_.find(server.id);
  if (there != servers_.end()) {
    // The server may list its GPUs in another order now.
    std::vector<uint32_t> number_now;
    for (const Gpu& before : there->second.gpus) {
      const auto now = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.is.uuid == before.is.uuid; });
      if (now == gpus.end() && IsHeld(server.id, static_cast<uint32_t>(number_now.size()))) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("server '{}' came back without {}, of which grants hold a part", server.id, before.is.uuid));
      }
      if (now != gpus.end()) now->granted = before.granted;
      number_now.push_back(static_cast<uint32_t>(now - gpus.begin()));
    }
    for (auto& [grant, held] : held_) {
      if (held.server != server.id) continue;
      for (HeldGpu& one : held.gpus) one.gpu = number_now[one.gpu];
    }
  }
  Server& joined = servers_[server.id];
  joined.addresses = std::move(server.addresses);
  joined.gpus = std::move(gpus);
  joined.host = std::move(server.host);
  joined.takes_tickets = server.takes_tickets;
  if (!server.holder.empty()) joined.holder = std::move(server.holder);
  joined.joined = true;
  joined.heard_ns = now_ns;
  ++changes_;
  return Status::Ok();
}

void Inventory::Leave(std::string_view id) {
  const auto server = servers_.find(id);
  if (server == servers_.end()) return;
  server->second.joined = false;
  ++changes_;
}

Status Inventory::Remove(std::string_view id) {
  const auto server = servers_.find(id);
  if (server == servers_.end()) return NoServer(id);
  if (server->second.joined)
    return Status(StatusCode::kUnsupported,
                  fmt::format("server '{}' is connected: stop its tesserad and its tessera-node first", id));
  if (IsHeld(id)) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("grants hold a part of server '{}': 'tessera drain {} --deadline 0' ends them", id, id));
  }
  servers_.erase(server);
  ++changes_;
  return Status::Ok();
}

void Inventory::Heard(std::string_view id, int64_t now_ns) {
  const auto server = servers_.find(id);
  if (server == servers_.end()) return;
  if (now_ns - server->second.heard_ns >= kSilentNs) ++changes_;
  server->second.heard_ns = now_ns;
}

Status Inventory::Close(std::string_view id, std::string reason) {
  const auto server = servers_.find(id);
  if (server == servers_.end()) return NoServer(id);
  server->second.closed = std::move(reason);
  ++changes_;
  return Status::Ok();
}

Status Inventory::Open(std::string_view id) {
  const auto server = servers_.find(id);
  if (server == servers_.end()) return NoServer(id);
  server->second.closed.reset();
  ++changes_;
  return Status::Ok();
}

Status Inventory::SetOthers(std::string_view id, const std::vector<GpuAmount>& others) {
  const auto server = servers_.find(id);
  if (server == servers_.end()) return NoServer(id);
  std::vector<Gpu>& gpus = server->second.gpus;
  if (others.size() != gpus.size()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("server '{}' has {} GPUs, and told of {}", id, gpus.size(), others.size()));
  }
  bool makes_room = false;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const GpuAmount before = std::exchange(gpus[i].others, others[i]);
    makes_room |= others[i].share < before.share || others[i].memory_bytes < before.memory_bytes;
  }
  if (makes_room) ++changes_;
  return Status::Ok();
}

Status Inventory::Hold(std::string_view grant, std::string_view server, std::vector<HeldGpu> gpus) {
  const auto there = servers_.find(server);
  if (there == servers_.end()) return NoServer(server);
  const auto [first, last] = held_.equal_range(grant);
  if (std::any_of(first, last, [&](const auto& held) { return held.second.server == server; })) {
    return Status(StatusCode::kInvalidArgument, fmt::format("grant '{}' holds a part of server '{}' already", grant, server));
  }
  std::set<uint32_t> numbers;
  for (const HeldGpu& one : gpus) {
    if (one.gpu >= there->second.gpus.size()) {
      return Status(StatusCode::kNotFound,
                    fmt::format("server '{}' has no GPU {}: it has {}", server, one.gpu, there->second.gpus.size()));
    }
    if (!numbers.insert(one.gpu).second) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("grant '{}' names GPU {} of server '{}' twice", grant, one.gpu, server));
    }
    const GpuAmount free = there->second.gpus[one.gpu].Free();
    if (one.amount.share > free.share) {
      return Status(StatusCode::kResourceExhausted,
                    fmt::format("GPU {} of server '{}' has {} ppm of its time left, {} fewer than are asked for", one.gpu, server,
                                free.share, one.amount.share - free.share));
    }
    if (one.amount.memory_bytes > free.memory_bytes) {
      return Status(StatusCode::kResourceExhausted,
                    fmt::format("GPU {} of server '{}' has {} of memory left, {} fewer than are asked for", one.gpu, server,
                                BytesText(free.memory_bytes), BytesText(one.amount.memory_bytes - free.memory_bytes)));
    }
  }
  for (const HeldGpu& one : gpus) {
    GpuAmount& granted = there->second.gpus[one.gpu].granted;
    granted.share += one.amount.share;
    granted.memory_bytes += one.amount.memory_bytes;
  }
  held_.emplace(grant, Held{std::string(server), std::move(gpus)});
  return Status::Ok();
}

void Inventory::Free(std::string_view grant) {
  const auto [first, last] = held_.equal_range(grant);
  if (first == last) return;
  for (auto held = first; held != last; ++held) {
    std::vector<Gpu>& gpus = servers_.find(held->second.server)->second.gpus;
    for (const HeldGpu& one : held->second.gpus) {
      gpus[one.gpu].granted.share -= one.amount.share;
      gpus[one.gpu].granted.memory_bytes -= one.amount.memory_bytes;
    }
  }
  held_.erase(first, last);
  ++changes_;
}

}  // namespace tessera
