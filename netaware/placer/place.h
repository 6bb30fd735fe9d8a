// Where a job's GPUs are to be: Best-fit over the servers of a pool.
//
//   const Placement found = Place(pool, {.gpus = 2, .share = 500'000, .memory_bytes = 20 << 30}, now_ns);
//
// A GPU that fits is better the less of its time is left behind it, then the less of its memory; then the server's id and the
// GPU's number decide, so that equal pools give equal answers. All GPUs come from one server where one has them all. Else from as
// few as possible: those with the most that fit, and for the rest the one that has the fewest more than it needs. Several of a
// server that are equally good are of one NUMA node where that can be, and there of the same PCIe switches; so are servers
// compared whose GPUs are equally good. Where a GPU is that does not say it, is a place of its own, the same for all such.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netaware/inventory/inventory.h"
#include "netaware/placer/wish.h"

namespace tessera {

struct ChosenGpu {
  uint32_t gpu = 0;           // its number in the server's list
  uint64_t memory_bytes = 0;  // without contexts

  friend bool operator==(const ChosenGpu&, const ChosenGpu&) = default;
};
struct ChosenPart {
  std::string server{};
  std::vector<ChosenGpu> gpus{};

  friend bool operator==(const ChosenPart&, const ChosenPart&) = default;
};

struct Placement {
  // A process reaches so many servers, and so many GPUs of each by one ticket.
  static constexpr size_t kPartsMax = 8;
  static constexpr size_t kGpusOfPartMax = 8;

  enum class Outcome {
    kPlaced,
    kWaits,  // it would fit if others ended, or servers came back
    kNever,  // it would not fit if the pool were empty
  };
  Outcome outcome = Outcome::kNever;
  std::vector<ChosenPart> parts{};  // of kPlaced
  std::string reason{};             // else: what refused how many GPUs, and the nearest that would fit
};

// `avoided`: servers that have nothing for this job now, whatever is free there.
Placement Place(const Inventory& pool, const Wish& wish, int64_t now_ns, const ServerNames& avoided = {});

}  // namespace tessera
