// What the machine's libnvidia-ml.so.1 tells of its GPUs while they work. Source: NVML API Reference.
//
//   Result<std::unique_ptr<Nvml>> nvml = Nvml::Load();
//   std::vector<ServerReport::Value> values = nvml.value()->Read("GPU-...");
//
// One thread. A call takes milliseconds, and may hang when a GPU has fallen off its bus: to be used in a process that
// nobody waits for (server/daemon/monitor.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/server_query.h"

namespace tessera {

class Nvml {
 public:
  // Loads and initialises the real library; Tessera's own, for clients, is never taken for it. kNotFound with what was
  // tried. It stays loaded.
  static Result<std::unique_ptr<Nvml>> Load();

  // The version of the kernel driver: "580.159.04"; empty when it does not tell.
  std::string DriverRelease() const;
  // All that the device with this UUID ("GPU-..." or "MIG-...") tells; what it does not tell is left out.
  std::vector<ServerReport::Value> Read(const std::string& uuid) const;
  // Bytes of the device that each process uses, by pid; Use::kUnknown where NVML does not know.
  std::map<uint32_t, uint64_t> ProcessBytes(const std::string& uuid) const;

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* Find(const std::string& uuid) const;
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) const;

  void* library_;
};

}  // namespace tessera
