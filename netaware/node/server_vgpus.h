// A server's vGPUs and GPUs, as its broker reports them, and a vGPU to request from it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct ServerVgpu {
  std::string name{};
  std::string gpu{};          // "GPU-..."
  double request = 0;         // share of the GPU's time
  uint64_t memory_bytes = 0;  // 0: no limit
  uint32_t processes = 1;     // whose contexts have room beside that
  uint32_t sessions = 0;
  bool is_of_api = true;    // made by the control API, which can also delete it
  bool is_in_force = true;  // false: it has a name alone, and can be deleted

  friend bool operator==(const ServerVgpu&, const ServerVgpu&) = default;
};

struct ServerGpu {
  std::string uuid{};
  uint64_t memory_bytes = 0;                            // for vGPUs with a limit, including their contexts; 0: not known
  uint64_t context_bytes = 0;                           // the size of one context; 0: not known
  double kept_share = 0;                                // the share of its time for sessions without a vGPU of their own
  std::vector<std::string> isolations{}, priorities{};  // the supported ones; empty: the broker does not report them

  friend bool operator==(const ServerGpu&, const ServerGpu&) = default;
};

struct ServerVgpus {
  std::vector<ServerVgpu> vgpus{};
  std::vector<ServerGpu> gpus{};  // in the server's order

  friend bool operator==(const ServerVgpus&, const ServerVgpus&) = default;
};

// The description of a GPU and its place in the host.
struct ServerDevice {
  std::string model{};
  std::string pci{};                    // "0000:02:00.0"; empty: not known
  std::optional<uint32_t> numa{};       // the nearest NUMA node; nullopt: not known
  std::optional<uint32_t> pci_group{};  // GPUs of one group reach each other without a host bridge; nullopt: not known

  friend bool operator==(const ServerDevice&, const ServerDevice&) = default;
};

struct WantedVgpu {
  std::string name{};
  std::string gpu{};  // "GPU-..."
  double request = 0;
  double limit = 1;
  uint64_t memory_bytes = 0;  // 0: no limit
  uint32_t processes = 1;     // whose contexts have room beside that
  std::string isolation{};    // as VgpuSpec of protocol/control/vgpu.proto
  std::string priority{};     // likewise
  std::string owner{};        // the only holder who may use it

  friend bool operator==(const WantedVgpu&, const WantedVgpu&) = default;
};

}  // namespace tessera
