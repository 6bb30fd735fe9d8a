// Finds the devices of this machine, in a child process. The daemon must never load a driver: it could not start children safely
// any more, and a broken driver would end it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "server/driver/loader.h"

namespace tessera {

struct DeviceList {
  std::string driver;                   // the loaded driver, as workers take it: "cuda", "emulator" or a path
  std::string file;                     // the file that was loaded
  int version = 0;                      // cuDriverGetVersion: 13000 is 13.0
  std::vector<std::string> names;       // one per device
  std::string priorities;               // FormatPriorities() of all devices
  std::vector<std::byte> snapshot;      // DeviceSnapshot of all devices, encoded
  std::vector<uint64_t> context_bytes;  // readings/context_cost.h, if it was asked for
};

// Starts the child and reads what it found. kNotFound: no driver, or no device; the message says which and why.
Result<DeviceList> ProbeDevices(const std::string& driver, const std::string& log_word, bool measure_contexts = false);

// The child's side: loads the driver, writes the list (or the error) to `fd`, returns the exit code.
int RunProbe(const std::string& driver, bool measure_contexts, int fd);

// Loads "cuda", "emulator" or a path, without initialising it.
Result<std::unique_ptr<Driver>> LoadChosenDriver(const std::string& choice);

// "NVIDIA H200 ×2, Tessera Emulated GPU ×1".
std::string DescribeDevices(const DeviceList& devices);
// "13.0".
std::string DescribeVersion(int version);

}  // namespace tessera
