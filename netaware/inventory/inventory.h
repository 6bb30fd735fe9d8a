// What the servers of a pool have, and what of it is taken.
//
//   Inventory pool;
//   RETURN_IF_ERROR(pool.Join({.id = "gpu7", .gpus = {...}}, now_ns));
//   RETURN_IF_ERROR(pool.Hold("grant-1", "gpu7", {{.gpu = 0, .amount = {500'000, bytes}}}));
//   pool.Free("grant-1");
//
// Pure: time is an argument, and of one clock. Belongs to one thread.
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

// Of one GPU.
struct GpuAmount {
  uint32_t share = 0;
  uint64_t memory_bytes = 0;  // of a vGPU: its limit and its context

  friend bool operator==(const GpuAmount&, const GpuAmount&) = default;
};

struct PoolGpu {
  std::string uuid{};   // "GPU-...", no other GPU's
  std::string model{};  // as NVML names it
  GpuAmount all{};      // that vGPUs may have together, as the server admits them
  uint64_t context_bytes = 0;
  uint32_t kept_share = 0;  // of `all`, that no grant can have; it is among what others have, too
  std::vector<std::string> isolations{"strict"}, priorities{"normal"};  // that its server has for it
  std::string pci{};                                                    // as "0000:02:00.0"; empty: not known
  std::optional<uint32_t> numa{};                                       // the nearest NUMA node of its host; nothing: not known
  std::optional<uint32_t> pci_group{};  // GPUs of the server with the same one share PCIe switches; nothing: not known
};

struct PoolServer {
  std::string id{};                      // of the host, no other server's
  std::vector<std::string> addresses{};  // at which clients reach it
  std::vector<PoolGpu> gpus{};           // in the order of the server's list
  std::string host{};                    // on which its unix: addresses are; empty: nobody has said
};

class Inventory {
 public:
  // A server of which nothing was heard for so long is not offered.
  static constexpr int64_t kSilentNs = 15'000'000'000;

  struct Gpu {
    PoolGpu is{};
    GpuAmount granted{};  // by Hold()
    GpuAmount others{};   // vGPUs that are no grant's, and programs without one
    // What is left; nothing is below 0, whatever the server says that others have.
    GpuAmount Free() const;
  };
  struct Server {
    std::vector<std::string> addresses{};
    std::vector<Gpu> gpus{};
    std::string host{};  // on which its unix: addresses are
    bool joined = false;
    int64_t heard_ns = 0;
    std::optional<std::string> closed{};  // why nothing new is placed there; what runs there goes on

    // Why nothing new is placed there at `now_ns`, as "is silent"; empty: it is offered.
    std::string NotOffered(int64_t now_ns) const;
    // Why it is not there, as "is silent"; empty: it is.
    std::string Away(int64_t now_ns) const;
  };
  struct HeldGpu {
    uint32_t gpu = 0;  // its number in the server's list
    GpuAmount amount{};
  };

  // A server is there, or there again: what grants hold of it stays held. kInvalidArgument: a server of that id has joined and
  // has not left, another has one of its GPUs, it names one twice, or it came back without a GPU of which grants hold a part; the
  // sentence says which. Nothing has changed then.
  Status Join(PoolServer server, int64_t now_ns);
  // Its connection has ended. Its grants keep what they hold.
  void Leave(std::string_view id);
  void Heard(std::string_view id, int64_t now_ns);
  // kNotFound: there is no such server.
  Status Close(std::string_view id, std::string reason);
  Status Open(std::string_view id);
  // What is taken by others than grants, a row for each GPU. kNotFound; kInvalidArgument: another number of rows.
  Status SetOthers(std::string_view id, const std::vector<GpuAmount>& others);

  // Takes all of `gpus` for a part of a grant, or nothing. A grant may hold parts of several servers. kNotFound: no such server
  // or GPU; kInvalidArgument: the grant holds something of this server already, or a GPU is named twice; kResourceExhausted: more
  // than is free, by how much.
  Status Hold(std::string_view grant, std::string_view server, std::vector<HeldGpu> gpus);
  // Whatever the grant holds, everywhere. One that holds nothing: does nothing.
  void Free(std::string_view grant);

  // Grows with whatever may have made room.
  uint64_t changes() const { return changes_; }
  // By id.
  const std::map<std::string, Server, std::less<>>& servers() const { return servers_; }

 private:
  struct Held {
    std::string server;
    std::vector<HeldGpu> gpus;
  };

  Status CheckJoin(const PoolServer& server) const;
  bool IsHeld(std::string_view server, uint32_t gpu) const;

  std::map<std::string, Server, std::less<>> servers_;
  uint64_t changes_ = 0;
  std::multimap<std::string, Held, std::less<>> held_;  // by grant
};

}  // namespace tessera
