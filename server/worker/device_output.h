// Catches what the driver writes on file descriptors 1 and 2: the text of printf in kernels, and of assertions that fail
// there. It belongs on the client's terminal, not on the server's.
//
// The driver writes it when the process synchronises, or finds out about the failure. Before the driver is loaded the
// worker process replaces the descriptors by memory files (a pipe could fill up and block the driver inside the call we
// wait for); after a call that may have made the driver write, the text is read from there and sent to the client. What
// was read is punched out of the file, so it never holds more than the driver's printf buffer
// (CU_LIMIT_PRINTF_FIFO_SIZE) and one piece.
//
// The worker's own words must not reach the client: its log goes to the former descriptor 2, and so does what waits on 2
// when the process aborts (the words of CHECK, of std::terminate and of the C library).
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

  enum class Stream { kOutput, kErrors };
  using Taker = std::function<void(Stream stream, std::span<const std::byte> piece)>;

  // Redirects descriptors 1 and 2 of the process, and the log to the former 2. Once at a time per process, before the
  // driver is loaded and before other threads write to them.
  static Result<std::unique_ptr<DeviceOutput>> Capture();
  // Puts the former descriptors, and the log, back.
  ~DeviceOutput();

  // Hands everything that was written since the last call to `take`, in order, piece by piece; errors first, since the
  // driver flushes prints later than it complains. Any thread.
  void Drain(const Taker& take) EXCLUDES(mutex_);

 private:
  struct Caught {
    UniqueFd file;
    UniqueFd saved;  // invalid when the process had no such descriptor
    uint64_t read_offset = 0;
  };

  DeviceOutput() = default;
  static Status Redirect(int fd, const char* name, Caught* caught);
  static void Read(Stream stream, Caught& caught, const Taker& take);
  static void OnAbort(int number);

  Mutex mutex_;
  Caught output_ GUARDED_BY(mutex_);
  Caught errors_ GUARDED_BY(mutex_);
};

}  // namespace tessera
