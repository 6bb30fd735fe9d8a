// Chooses a job's GPUs: Best-fit over the servers of a pool.
//
//   const Placement found = Place(pool, {.gpus = 2, .share = 500'000, .memory_bytes = 20 << 30}, now_ns);
//
// The best GPU that fits is the one with the least time left over, then the one with the least memory left over. After that the
// server's id and the GPU's number decide, so that equal pools give equal answers. All GPUs come from one server if any has
// enough. Otherwise they come from as few servers as possible: first those with the most GPUs that fit, and for the rest the
// one with the fewest to spare. Among equally good GPUs of a server those of one NUMA node are preferred, and there those of
// the same PCIe switches. Servers with equally good GPUs are compared in the same way. All GPUs with an unknown place count as
// one place.
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
  // The most servers that a process can reach, and the most GPUs of a server in one ticket.
  static constexpr size_t kPartsMax = 8;
  static constexpr size_t kGpusOfPartMax = 8;

  enum class Outcome {
    kPlaced,
    kWaits,  // it would fit if others ended, or a server that is away or has not joined yet may bring the missing GPUs
    kNever,  // every server is there, and it would not fit if nothing were taken
  };
  Outcome outcome = Outcome::kNever;
  std::vector<ChosenPart> parts{};  // of kPlaced
  std::string reason{};             // else: the number of GPUs that each filter refused, and the wish that would fit
  uint32_t looks = 0;               // the number of looks at a GPU that this took
};

// `avoided`: servers that get no part of this job now, whatever is free there.
Placement Place(const Inventory& pool, const Wish& wish, int64_t now_ns, const ServerNames& avoided = {});

}  // namespace tessera
