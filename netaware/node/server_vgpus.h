// A server's vGPUs and GPUs, as its broker tells of them, and a vGPU that it is asked for. Plain values.
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
  bool is_of_api = true;    // made by the control API, which can delete it
  bool is_in_force = true;  // else it has a name alone, and can be deleted

  friend bool operator==(const ServerVgpu&, const ServerVgpu&) = default;
};

struct ServerGpu {
  std::string uuid{};
  uint64_t memory_bytes = 0;   // that vGPUs with a limit and a context for each may have together; 0: not known
  uint64_t context_bytes = 0;  // that a context takes; 0: not known
  double kept_share = 0;       // of its time, that is for sessions without a vGPU of their own
  std::vector<std::string> isolations{}, priorities{};  // that it has; none: a broker that does not say

  friend bool operator==(const ServerGpu&, const ServerGpu&) = default;
};

struct ServerVgpus {
  std::vector<ServerVgpu> vgpus{};
  std::vector<ServerGpu> gpus{};  // in the server's order

  friend bool operator==(const ServerVgpus&, const ServerVgpus&) = default;
};

// What a GPU is, and where in its host.
struct ServerDevice {
  std::string model{};
  std::string pci{};                    // "0000:02:00.0"; empty: not known
  std::optional<uint32_t> numa{};       // the nearest node; nothing: not known
  std::optional<uint32_t> pci_group{};  // that of the server's GPUs that reach it without a host bridge; nothing: not known

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
  std::string owner{};        // who alone may use it

  friend bool operator==(const WantedVgpu&, const WantedVgpu&) = default;
};

}  // namespace tessera
