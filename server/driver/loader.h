// Loads the CUDA driver the worker executes on: the machine's libcuda.so.1, or Tessera's emulator, into a DriverTable.
// This is the only place of the server that loads code at run time.
#pragma once

#include <memory>
#include <string>

#include "generated/driver_table.h"
#include "protocol/base/status.h"

namespace tessera {

class Driver {
 public:
  // `where`: "" or "real" searches the real driver (the dynamic linker's own search, then the directories where drivers
  // and container runtimes put it); "emulator" is libtessera-emulator.so in ../lib of the running program; anything else
  // is a path. Tessera's own client library is never taken for a driver. Does not call cuInit. Any thread; each call
  // loads, what is loaded stays loaded until the process ends (drivers do not survive being unloaded).
  // Errors: kNotFound with what was tried; kInvalidArgument for a file that is not a driver.
  static Result<std::unique_ptr<Driver>> Load(const std::string& where);

  const DriverTable& table() const { return table_; }
  // The file that was loaded.
  const std::string& path() const { return path_; }
  // Functions that this driver lacks; calls of them end with CUDA_ERROR_NOT_SUPPORTED.
  int missing_count() const { return missing_count_; }

  // cuInit and the number of devices, at least 1. kNotFound with a sentence for people otherwise. A process in which
  // this ran must not fork and use CUDA in the child.
  Result<int> CountDevices() const;

 private:
  Driver() = default;

  DriverTable table_;
  std::string path_;
  int missing_count_ = 0;
};

}  // namespace tessera
