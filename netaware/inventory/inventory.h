// The servers of a pool: what they have, and how much of it is taken.
//
//   Inventory pool;
//   RETURN_IF_ERROR(pool.Join({.id = "gpu7", .gpus = {...}}, now_ns));
//   RETURN_IF_ERROR(pool.Hold("grant-1", "gpu7", {{.gpu = 0, .amount = {500'000, bytes}}}));
//   pool.Free("grant-1");
//
// Pure: the caller passes the time, always of one clock. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// Shares of a GPU's time are parts per million.
inline constexpr uint32_t kWholeShare = 1'000'000;

// An amount of one GPU.
struct GpuAmount {
  uint32_t share = 0;
  uint64_t memory_bytes = 0;  // for a vGPU: its limit and its context

  friend bool operator==(const GpuAmount&, const GpuAmount&) = default;
};

struct PoolGpu {
  std::string uuid{};   // "GPU-...", unique in the pool
  std::string model{};  // as NVML names it
  GpuAmount all{};      // for all vGPUs together, as the server admits them
  uint64_t context_bytes = 0;
  uint32_t kept_share = 0;  // of `all`; no grant can have it, and it counts as taken by others
  std::vector<std::string> isolations{"strict"}, priorities{"normal"};  // those that its server offers
  std::string pci{};                                                    // as "0000:02:00.0"; empty: not known
  std::optional<uint32_t> numa{};                                       // the nearest NUMA node of its host; nullopt: not known
  std::optional<uint32_t> pci_group{};  // GPUs of one server with the same number share PCIe switches; nullopt: not known
};

struct PoolServer {
  std::string id{};                      // of the host, unique in the pool
  std::vector<std::string> addresses{};  // at which clients reach it
  std::vector<PoolGpu> gpus{};           // in the order of the server's list
  std::string host{};                    // the host of its unix: addresses; empty: not known
  bool takes_tickets = true;             // false: the server lets no job of the pool in
  std::string holder{};                  // its owner, by certificate or user; empty: not known
};

class Inventory {
 public:
  // Servers of one holder, also those that are away.
  static constexpr size_t kServersOfHolder = 16;
  // A server that is silent for this time is not offered.
  static constexpr int64_t kSilentNs = 15'000'000'000;

  struct Gpu {
    PoolGpu is{};
    GpuAmount granted{};  // by Hold()
    GpuAmount others{};   // vGPUs without a grant, and programs without a vGPU
    // The amount that is left. Never below 0, even if the server reports that others have more than there is.
    GpuAmount Free() const;
  };
  struct Server {
    std::vector<std::string> addresses{};
    std::vector<Gpu> gpus{};
    std::string host{};  // the host of its unix: addresses
    bool takes_tickets = true;
    std::string holder{};  // the only one who may join as this server, and whose its GPUs are
    bool joined = false;
    int64_t heard_ns = 0;
    std::optional<std::string> closed{};  // the reason why nothing new is placed there; what runs there goes on

    // The reason why nothing new is placed there at `now_ns`, such as "is silent"; empty: it is offered.
    std::string NotOffered(int64_t now_ns) const;
    // The reason why it is away, such as "is silent"; empty: it is there.
    std::string Away(int64_t now_ns) const;
  };
  struct HeldGpu {
    uint32_t gpu = 0;  // its number in the server's list
    GpuAmount amount{};
  };

  // A server joins, or comes back; grants keep what they hold of it. An error changes nothing, and its sentence has the cause.
  // kInvalidArgument: a server of that id is joined already, another server has one of its GPUs, it names a GPU twice, or it
  // came back without a GPU that has a part held by grants. kPermissionDenied: the server of that id, or one of its GPUs,
  // belongs to another holder, even if that one is away. kResourceExhausted: its holder has too many servers.
  Status Join(PoolServer server, int64_t now_ns);
  // The server's connection has ended. Its grants keep what they hold.
  void Leave(std::string_view id);
  // Forgets a server that has left. If it comes back, it joins as one that was never there. kNotFound: there is no such server.
  // kUnsupported: it is connected, or grants hold a part of it.
  Status Remove(std::string_view id);
  void Heard(std::string_view id, int64_t now_ns);
  // kNotFound: there is no such server.
  Status Close(std::string_view id, std::string reason);
  Status Open(std::string_view id);
  // Sets the amounts that others than grants have, one row for each GPU. kNotFound: no such server. kInvalidArgument: wrong
  // number of rows.
  Status SetOthers(std::string_view id, const std::vector<GpuAmount>& others);

  // Takes all of `gpus` for a grant, or nothing. A grant may hold GPUs of several servers. kNotFound: no such server or GPU.
  // kInvalidArgument: the grant holds something of this server already, or a GPU is named twice. kResourceExhausted: it is more
  // than is free; the sentence has the difference.
  Status Hold(std::string_view grant, std::string_view server, std::vector<HeldGpu> gpus);
  // Frees all that the grant holds, on all servers. Does nothing if it holds nothing.
  void Free(std::string_view grant);

  // A counter of the changes that may give another answer to a job that did not fit: room was made, or a server has come, gone,
  // or been closed. Less room is no such change.
  uint64_t changes() const { return changes_; }
  // By id.
  const std::map<std::string, Server, std::less<>>& servers() const { return servers_; }

 private:
  struct Held {
    std::string server;
    std::vector<HeldGpu> gpus;
  };

  Status CheckJoin(const PoolServer& server) const;
  Status CheckHolder(const PoolServer& server) const;
  bool IsHeld(std::string_view server, uint32_t gpu) const;
  bool IsHeld(std::string_view server) const;

  std::map<std::string, Server, std::less<>> servers_;
  uint64_t changes_ = 0;
  std::multimap<std::string, Held, std::less<>> held_;  // by grant
};

}  // namespace tessera
