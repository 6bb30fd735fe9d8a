// What a list of devices means, as CUDA_VISIBLE_DEVICES has it. The emulated GPU reads it so, and whoever applies it to some of a
// driver's devices; a driver that has all of its devices reads it itself.
//
// The rules (CUDA C++ Programming Guide, "CUDA Environment Variables"; PyTorch's torch.cuda._parse_visible_devices, whose tests
// were compared with driver 525):
// - An entry is a number, which counts the devices from 0, or the beginning of one device's UUID ("GPU-8932f937", "MIG-...").
//   "MIG-" also stands before the UUID of a whole device (driver 580, measured on an H200).
// - The first entry that names no device ends the list: a number out of range or below 0, a beginning of no UUID or of several.
// - Of a number only its beginning counts: spaces, a sign, digits ("1gpu" is 1, "00" and "0x0" are 0). Without a digit it is
// none.
// - How the list begins says what all its entries are: behind "GPU-..." a number names nothing, and behind a number a UUID.
// - A list that names a device twice is invalid as a whole: cuInit returns CUDA_ERROR_INVALID_DEVICE. One that names none leaves
//   no device: CUDA_ERROR_NO_DEVICE.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct VisibleDevices {
  std::vector<size_t> numbers;  // of the devices, in the order of the list
  bool repeats = false;         // the last of them is there before
};
// `uuids`: of all devices, "GPU-..." or "MIG-...", in the order of their numbers.
VisibleDevices SelectVisibleDevices(std::string_view list, std::span<const std::string> uuids);

// Whether a list says plainly that no device is wanted, whatever devices there are: it is empty, or begins with a negative
// number.
bool WantsNoDevice(std::string_view list);

}  // namespace tessera
