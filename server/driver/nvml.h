// What the machine's libnvidia-ml.so.1 tells of its GPUs while they work. Source: NVML API Reference.
//
//   Result<std::unique_ptr<Nvml>> nvml = Nvml::Load();
//   const Nvml::Readings state = nvml.value()->Read("GPU-...", ServerQuery::Ask::kState);
//
// One thread. A call takes milliseconds, and may hang when a GPU has fallen off its bus: to be used in a process that
// nobody waits for (server/daemon/monitor.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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

  struct Readings {
    std::vector<ServerReport::Value> values;
    std::vector<ServerReport::Text> texts;
  };
  // What the device with this UUID ("GPU-..." or "MIG-...") tells of what belongs to `ask` (all but kNothing and
  // kFields); what it does not tell is left out.
  Readings Read(const std::string& uuid, ServerQuery::Ask ask) const;
  // One answer per field, in their order; none when NVML knows no fields, or no such device. A scope that is no link's number,
  // and not that of all links, is an invalid argument (2): the driver is not asked.
  std::vector<ServerReport::FieldValue> ReadFields(const std::string& uuid, const std::vector<ServerQuery::Field>& fields) const;
  // How the device is connected to each of `others`, which may contain it; a reading's place is the other one's there.
  std::vector<ServerReport::Value> ReadPeers(const std::string& uuid, const std::vector<std::string>& others) const;
  // Bytes of the device that each process uses, by pid; Use::kUnknown where NVML does not know.
  std::map<uint32_t, uint64_t> ProcessBytes(const std::string& uuid) const;
  // The load that NVML has sampled of each process, by pid, since `since_us` (of the clock of Load::time_us; 0: as far back as it
  // has samples); none of processes that did nothing. nullopt: it does not tell of processes.
  std::optional<std::map<uint32_t, ServerReport::Load>> ProcessLoads(const std::string& uuid, uint64_t since_us) const;

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* Find(const std::string& uuid) const;
  void ReadListed(void* device, ServerQuery::Ask ask, Readings* readings) const;
  void ReadMemoryAndLoad(void* device, Readings* readings) const;
  void ReadIdentity(void* device, Readings* readings) const;
  void ReadClocks(void* device, Readings* readings) const;
  // Calls a function of the library by name; false when it is absent or fails. Its parameters must have exactly these types.
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) const;
  // What it answers; kAbsent when there is no such function.
  template <typename... Arguments>
  int Answer(const char* name, Arguments... arguments) const;

  void* library_;
};

}  // namespace tessera
