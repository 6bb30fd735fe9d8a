#include "server/worker/device_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "protocol/base/log.h"

namespace tessera {

Result<std::unique_ptr<DeviceOutput>> DeviceOutput::CaptureStdout() {
  UniqueFd file(memfd_create("device-output", MFD_CLOEXEC));
  if (!file.valid()) return Status::FromErrno("cannot create the memory file for device output", errno);
  // Appending: several threads of the driver may print at once, and reading must not move where they write.
  if (fcntl(file.get(), F_SETFL, O_APPEND) != 0) return Status::FromErrno("cannot open device output for appending", errno);
  fflush(stdout);
  UniqueFd saved(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));  // stays invalid when there was no stdout
  if (dup2(file.get(), STDOUT_FILENO) < 0) return Status::FromErrno("cannot redirect stdout", errno);
  return std::unique_ptr<DeviceOutput>(new DeviceOutput(std::move(file), std::move(saved)));
}

DeviceOutput::~DeviceOutput() {
  fflush(stdout);
  if (saved_.valid()) dup2(saved_.get(), STDOUT_FILENO);
}

void DeviceOutput::Drain(const std::function<void(std::span<const std::byte>)>& take) {
  fflush(stdout);
  MutexLock lock(mutex_);
  const uint64_t start = read_offset_;
  std::array<std::byte, kPieceBytes> piece;
  for (;;) {
    const ssize_t count = pread(file_.get(), piece.data(), piece.size(), static_cast<off_t>(read_offset_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) LogError("cannot read device output: errno {}", errno);
    if (count <= 0) break;
    read_offset_ += static_cast<uint64_t>(count);
    take(std::span(piece).first(static_cast<size_t>(count)));
  }
  // Gives the memory of what was read back; only whole pages can go, the rest goes with the next call.
  if (read_offset_ / 4096 != start / 4096) {
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start & ~uint64_t{4095}),
              static_cast<off_t>((read_offset_ & ~uint64_t{4095}) - (start & ~uint64_t{4095})));
  }
}

}  // namespace tessera
