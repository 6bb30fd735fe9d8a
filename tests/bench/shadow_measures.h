// What shadow_bench measures: DMA, the processor's copies, both at once, both on the same ring of places. GB/s, each the median
// of some calls. For one thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "client-stub/process/copier.h"
#include "tests/bench/copy_ways.h"

namespace tessera {

class ShadowMeasures {
 public:
  // Program memory of `bytes`, which is registered, and a ring: in a memory file that is registered, as the product's shadows, or
  // of cuMemAllocHost. Each figure takes `seconds`, or a few calls.
  ShadowMeasures(size_t bytes, bool pinned_ring, double seconds);

  // DMA of the program's own memory, one copy after another.
  double Dma(bool to_device, size_t bytes);
  // The processor alone, between program memory and the places in turn.
  double Copies(bool to_device, Copier& copier, const CopyWay& way);
  // The same beside DMA of other memory, whose rate becomes `dma`.
  double Beside(bool to_device, Copier& copier, const CopyWay& way, double* dma);
  // Copies of so many bytes, each through the ring and then waited for.
  double Ring(bool to_device, Copier& copier, const CopyWay& way, size_t bytes);

 private:
  static constexpr size_t kPlaces = 8;
  struct Plan {
    Plan(size_t bytes, bool to_device);
    std::vector<size_t> pieces;
    size_t place_bytes = 0;
    size_t places = 0;
  };

  template <typename Call>
  double Rate(size_t bytes, const Call& call);
  void Send(bool to_device, char* host, CUdeviceptr device, size_t bytes);
  void Move(bool to_device, Copier& copier, const CopyWay& way, char* place, char* program, size_t bytes, size_t whole);
  void AwaitPlace(size_t place);
  void Upload(Copier& copier, const CopyWay& way, size_t bytes);
  void Download(Copier& copier, const CopyWay& way, size_t bytes);

  const double seconds_;
  const size_t bytes_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr device_ = 0;
  char* pinned_ = nullptr;
  char* ring_ = nullptr;
  char* program_ = nullptr;
  CUevent events_[kPlaces] = {};
};

}  // namespace tessera
