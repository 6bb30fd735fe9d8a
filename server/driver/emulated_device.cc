#include "server/driver/emulated_device.h"

#include <cuda.h>

namespace tessera {
namespace {

uint64_t Attribute(const DeviceSnapshot::Device& device, CUdevice_attribute attribute) {
  const auto index = static_cast<size_t>(attribute);
  return index < device.attributes.size() ? static_cast<uint64_t>(device.attributes[index].value) : 0;
}

// What a compute capability stands for. Source: CUDA C++ Programming Guide, "Compute Capabilities"; nvmlDeviceArchitecture_t.
struct Generation {
  uint64_t capability;  // from this one on: 10 * major + minor
  uint64_t architecture;
  uint64_t cores_per_multiprocessor;
};
constexpr Generation kGenerations[] = {{100, 10, 128}, {90, 9, 128}, {89, 8, 128}, {86, 7, 128},
                                       {80, 7, 64},    {75, 6, 64},  {70, 5, 64}};

const Generation* GenerationOf(const DeviceSnapshot::Device& device) {
  const uint64_t capability = 10 * Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                              Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  for (const Generation& generation : kGenerations) {
    if (capability >= generation.capability) return &generation;
  }
  return nullptr;
}

}  // namespace

void AddEmulatedState(const DeviceSnapshot::Device& device, std::vector<ServerReport::Value>* values) {
  const uint64_t ecc = Attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  values->push_back({Reading::kEccMode, ecc});
  values->push_back({Reading::kEccMode + 1, ecc});
  values->push_back({Reading::kComputeMode, Attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)});
  if (const Generation* generation = GenerationOf(device)) values->push_back({Reading::kArchitecture, generation->architecture});
}

void AddEmulatedDetails(const DeviceSnapshot::Device& device, std::vector<ServerReport::Value>* values) {
  for (const Reading none : {Reading::kDisplayMode, Reading::kDisplayActive, Reading::kAccountingMode, Reading::kMultiGpuBoard,
                             Reading::kVirtualizationMode, Reading::kMigDevicesMax, Reading::kFanCount}) {
    values->push_back({none, 0});
  }
  if (const Generation* generation = GenerationOf(device)) {
    const uint64_t multiprocessors = Attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    values->push_back({Reading::kCores, generation->cores_per_multiprocessor * multiprocessors});
  }
}

}  // namespace tessera
