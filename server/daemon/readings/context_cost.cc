#include "server/daemon/readings/context_cost.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "protocol/base/log.h"
#include "server/driver/nvml.h"

namespace tessera {
namespace {

using Bytes = std::vector<uint64_t>;

CUcontext MakeContext(const DriverTable& table, int ordinal) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult result = table.cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = table.cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) return context;
  LogInfo("what a context takes of device {} is not known: none can be made (CUDA error {})", ordinal, int{result});
  return nullptr;
}

void LetGo(const DriverTable& table, int ordinal) {
  CUdevice device = 0;
  if (table.cuDeviceGet(&device, ordinal) == CUDA_SUCCESS) table.cuDevicePrimaryCtxRelease(device);
}

// At the same time: each takes its while.
std::vector<CUcontext> MakeContexts(const DriverTable& table, size_t count) {
  std::vector<CUcontext> contexts(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&table, &contexts, i] { contexts[i] = MakeContext(table, static_cast<int>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  return contexts;
}

// This process has the emulated device to itself.
uint64_t TakenOfEmulated(const DriverTable& table, CUcontext context) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (table.cuCtxSetCurrent(context) != CUDA_SUCCESS) return 0;
  return table.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS ? total_bytes - free_bytes : 0;
}

Bytes Used(const Nvml& nvml, const DeviceSnapshot& devices) {
  Bytes used;
  for (const DeviceSnapshot::Device& device : devices.devices) {
    used.push_back(0);
    for (const ServerReport::Value& value : nvml.Read(device.UuidText(), ServerQuery::Ask::kState).values) {
      if (value.reading == Reading::kMemoryUsedBytes) used.back() = value.value;
    }
  }
  return used;
}

uint64_t TakenByThisProcess(const Nvml& nvml, const std::string& uuid, uint64_t used_before, uint64_t used_after) {
  const auto processes = nvml.ProcessBytes(uuid);
  const auto own = processes.find(static_cast<uint32_t>(getpid()));
  if (own != processes.end() && own->second != ServerReport::Use::kUnknown) return own->second;
  return used_after > used_before ? used_after - used_before : 0;
}

}  // namespace

Bytes MeasureContexts(const DriverTable& table, const DeviceSnapshot& devices, bool emulated) {
  const size_t count = devices.devices.size();
  std::unique_ptr<Nvml> nvml;
  if (!emulated) {
    Result<std::unique_ptr<Nvml>> loaded = Nvml::Load();
    if (!loaded.ok()) {
      LogInfo("what a context takes of the GPUs is not known: {}", loaded.status().message());
      return Bytes(count);
    }
    nvml = std::move(loaded).value();
  }
  const Bytes before = nvml == nullptr ? Bytes(count) : Used(*nvml, devices);
  const std::vector<CUcontext> contexts = MakeContexts(table, count);
  const Bytes after = nvml == nullptr ? Bytes(count) : Used(*nvml, devices);
  Bytes taken(count);
  for (size_t i = 0; i < count; ++i) {
    if (contexts[i] == nullptr) continue;
    taken[i] = nvml == nullptr ? TakenOfEmulated(table, contexts[i])
                               : TakenByThisProcess(*nvml, devices.devices[i].UuidText(), before[i], after[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (contexts[i] != nullptr) LetGo(table, static_cast<int>(i));
  }
  return taken;
}

}  // namespace tessera
