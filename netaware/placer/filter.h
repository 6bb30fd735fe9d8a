// The filters that refuse GPUs for a job, and the sentence about their refusals. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "netaware/inventory/inventory.h"
#include "netaware/placer/wish.h"

namespace tessera {

// A view of a pool: as it is at a time, or (`empty`) as if every server were there and nothing were taken.
struct FilterView {
  static constexpr std::string_view kOtherHost =
      "is of another host, where nobody knows this user: ask at the placer's tls:// address with a certificate ('tessera keys "
      "client NAME'), or have the placer's policy give this user a name ([users])";

  bool empty = false;
  int64_t now_ns = 0;
  const ServerNames* avoided = nullptr;  // servers that lately refused this job; null: none

  // The reason why this server has nothing for the job; empty: it may have something.
  std::string NotOffered(std::string_view id, const Inventory::Server& server, const Wish& wish) const {
    // A host gets another id when it restarts. So a server that is away may come back with the right one.
    if (!wish.host.empty() && server.joined && server.host != wish.host) return std::string(kOtherHost);
    if (empty) return "";
    return avoided != nullptr && avoided->contains(id) ? "has refused it lately" : server.NotOffered(now_ns);
  }
  GpuAmount FreeOf(const Inventory::Gpu& gpu) const { return empty ? gpu.is.all : gpu.Free(); }
};

// Counts what each filter refused.
class Refusals {
 public:
  // True if a filter refuses this GPU. Counts the refusal. `not_offered`: FilterView::NotOffered() of its server.
  bool Refuse(const Wish& wish, const std::string& not_offered, const Inventory::Gpu& gpu, const GpuAmount& wanted,
              const FilterView& view);
  // For people: the number of GPUs that each filter refused, and the change of the wish that the nearest one needs.
  std::string Sentence(const Wish& wish) const;
  // The number of GPUs that no filter refused.
  uint32_t fit() const;
  uint32_t looked_at() const { return looked_at_; }

 private:
  // In the order in which the filters are asked.
  enum Filter : size_t { kModel, kServer, kIsolation, kPriority, kKept, kShare, kMemory, kFilters };

  std::array<uint32_t, kFilters> refused_{};
  uint32_t looked_at_ = 0;
  std::set<std::string, std::less<>> models_;                   // that the pool has
  std::set<std::string, std::less<>> isolations_, priorities_;  // of GPUs that kIsolation and kPriority refused
  uint32_t kept_least_ = kWholeShare;                           // of GPUs that kKept refused
  uint32_t share_most_ = 0;                                     // that kShare refused
  uint64_t memory_most_ = 0;                                    // that kMemory refused, less contexts
  uint64_t contexts_most_ = 0;                                  // the memory for contexts on a GPU that kMemory refused
  std::set<std::string, std::less<>> servers_;                  // the reasons of servers that kServer refused
};

}  // namespace tessera
