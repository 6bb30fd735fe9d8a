// Catches what the driver prints on file descriptor 1: the text of printf in kernels.
//
// The driver writes it when the process synchronises, with the C library's stdout. Before the driver is loaded the worker
// process replaces descriptor 1 by a memory file (a pipe could fill up and block the driver inside the call we wait for);
// after a synchronise call the text is read from there and sent to the client. What was read is punched out of the file,
// so it never holds more than the driver's printf buffer (CU_LIMIT_PRINTF_FIFO_SIZE) and one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class DeviceOutput {
 public:
  // Text travels in pieces of at most this many bytes.
  static constexpr size_t kPieceBytes = 16 * 1024;

  // Redirects descriptor 1 of the process. Once per process, before the driver is loaded and before other threads write
  // to stdout.
  static Result<std::unique_ptr<DeviceOutput>> CaptureStdout();
  ~DeviceOutput();  // puts the former descriptor 1 back

  // Hands everything that was printed since the last call to `take`, in order, piece by piece. Any thread.
  void Drain(const std::function<void(std::span<const std::byte>)>& take) EXCLUDES(mutex_);

 private:
  DeviceOutput(UniqueFd file, UniqueFd saved) : file_(std::move(file)), saved_(std::move(saved)) {}

  const UniqueFd file_;
  const UniqueFd saved_;
  Mutex mutex_;
  uint64_t read_offset_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera
