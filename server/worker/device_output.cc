#include "server/worker/device_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#define TESSERA_REPORT_TO(fd) __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<intptr_t>(fd)))
#else
#define TESSERA_REPORT_TO(fd)
#endif

#include <array>
#include <atomic>

#include "protocol/base/log.h"

namespace tessera {
namespace {

// For the abort handler, which can take no lock: where descriptor 2 is caught, where it belongs, and what was read.
std::atomic<int> abort_from{-1};
std::atomic<int> abort_to{-1};
std::atomic<uint64_t> abort_offset{0};

}  // namespace

// Async-signal-safe. Returns into abort(), which then ends the process.
void DeviceOutput::OnAbort(int) {
  const int from = abort_from.load();
  const int to = abort_to.load();
  if (from < 0 || to < 0) return;
  std::array<char, 4096> piece;
  off_t offset = static_cast<off_t>(abort_offset.load());
  for (;;) {
    const ssize_t count = pread(from, piece.data(), piece.size(), offset);
    if (count <= 0 || write(to, piece.data(), static_cast<size_t>(count)) != count) return;
    offset += count;
  }
}

Status DeviceOutput::Redirect(int fd, const char* name, Caught* caught) {
  UniqueFd file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return Status::FromErrno("cannot create the memory file for device output", errno);
  // Appending: several threads of the driver may print at once, and reading must not move where they write.
  if (fcntl(file.get(), F_SETFL, O_APPEND) != 0) return Status::FromErrno("cannot open device output for appending", errno);
  UniqueFd saved(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (dup2(file.get(), fd) < 0) return Status::FromErrno("cannot redirect a descriptor", errno);
  caught->file = std::move(file);
  caught->saved = std::move(saved);
  return Status::Ok();
}

Result<std::unique_ptr<DeviceOutput>> DeviceOutput::Capture() {
  fflush(stdout);
  std::unique_ptr<DeviceOutput> output(new DeviceOutput);
  MutexLock lock(output->mutex_);
  RETURN_IF_ERROR(Redirect(STDOUT_FILENO, "device-output", &output->output_));
  RETURN_IF_ERROR(Redirect(STDERR_FILENO, "device-errors", &output->errors_));
  if (output->errors_.saved.valid()) {
    SetLogFile(output->errors_.saved.get());
    TESSERA_REPORT_TO(output->errors_.saved.get());
  }
  abort_offset.store(0);
  abort_to.store(output->errors_.saved.get());
  abort_from.store(output->errors_.file.get());
  signal(SIGABRT, &DeviceOutput::OnAbort);
  return output;
}

DeviceOutput::~DeviceOutput() {
  fflush(stdout);
  MutexLock lock(mutex_);
  signal(SIGABRT, SIG_DFL);
  abort_from.store(-1);
  abort_to.store(-1);
  for (const auto& [caught, fd] : {std::pair{&output_, STDOUT_FILENO}, std::pair{&errors_, STDERR_FILENO}}) {
    if (caught->saved.valid()) dup2(caught->saved.get(), fd);
  }
  TESSERA_REPORT_TO(STDERR_FILENO);
  SetLogFile(STDERR_FILENO);
}

void DeviceOutput::Drain(const Taker& take) {
  fflush(stdout);
  MutexLock lock(mutex_);
  Read(Stream::kErrors, errors_, take);
  abort_offset.store(errors_.read_offset);
  Read(Stream::kOutput, output_, take);
}

void DeviceOutput::Read(Stream stream, Caught& caught, const Taker& take) {
  const uint64_t start = caught.read_offset;
  std::array<std::byte, kPieceBytes> piece;
  for (;;) {
    const ssize_t count = pread(caught.file.get(), piece.data(), piece.size(), static_cast<off_t>(caught.read_offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) LogError("cannot read device output: errno {}", errno);
    if (count <= 0) break;
    caught.read_offset += static_cast<uint64_t>(count);
    take(stream, std::span(piece).first(static_cast<size_t>(count)));
  }
  // Gives the memory of what was read back; only whole pages can go, the rest goes with the next call.
  if (caught.read_offset / 4096 != start / 4096) {
    fallocate(caught.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start & ~uint64_t{4095}),
              static_cast<off_t>((caught.read_offset & ~uint64_t{4095}) - (start & ~uint64_t{4095})));
  }
}

}  // namespace tessera
