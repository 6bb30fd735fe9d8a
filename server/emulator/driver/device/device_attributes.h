// What cuDeviceGetAttribute answers for an emulated device: a small device of compute capability 9.0.
#pragma once

#include "server/emulator/driver/base/api.h"
#include "server/emulator/driver/device/device.h"

namespace tessera::emulator {

inline constexpr char kDeviceName[] = "Tessera emulated GPU (software)";
inline constexpr int kFirstPciBus = 1;
inline constexpr int kMultiprocessors = 8;
inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kMaxThreadsPerMultiprocessor = 2048;
inline constexpr int kMaxBlocksPerMultiprocessor = 32;
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr int kSharedPerBlock = 48 << 10;
inline constexpr int kSharedPerBlockOptin = 227 << 10;
inline constexpr int kSharedPerMultiprocessor = 228 << 10;
inline constexpr int kReservedSharedPerBlock = 1 << 10;

// False for attributes that do not exist.
bool DeviceAttribute(const Device& device, CUdevice_attribute attribute, int* value);

}  // namespace tessera::emulator
