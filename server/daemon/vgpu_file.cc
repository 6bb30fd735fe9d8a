#include "server/daemon/vgpu_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr size_t kPieceBytes = 4096;

}  // namespace

Result<WatchedVgpuFile> WatchedVgpuFile::Open(const std::string& path) {
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch.valid()) return Status::FromErrno("cannot watch files", errno);
  constexpr uint32_t kEvents = IN_CLOSE_WRITE | IN_MODIFY | IN_MOVED_TO | IN_CREATE;
  if (inotify_add_watch(watch.get(), directory.c_str(), kEvents | IN_ONLYDIR) < 0) {
    return Status::FromErrno("cannot watch " + directory.string() + ", where the file of vGPUs is", errno);
  }
  WatchedVgpuFile file(path, std::move(watch));
  RETURN_IF_ERROR(file.Read(&file.text_));
  return file;
}

Status WatchedVgpuFile::Read(std::string* text) const {
  const UniqueFd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Status::FromErrno("cannot read the file of vGPUs " + path_, errno);
  // Piece by piece: room for the largest file would be kept with every text.
  std::string read_text;
  char piece[kPieceBytes];
  for (;;) {
    const ssize_t got = read(file.get(), piece, sizeof(piece));
    if (got < 0) return Status::FromErrno("cannot read the file of vGPUs " + path_, errno);
    if (got == 0) break;
    read_text.append(piece, static_cast<size_t>(got));
    if (read_text.size() > kVgpuFileBytesMax) {
      return Status(StatusCode::kResourceExhausted, "the file of vGPUs " + path_ + " has more than a MiB: that is none");
    }
  }
  *text = std::move(read_text);
  return Status::Ok();
}

bool WatchedVgpuFile::Look() {
  alignas(inotify_event) char events[4096];
  bool any = false;
  while (read(watch_.get(), events, sizeof(events)) > 0) any = true;
  if (!any) return false;
  std::string text;
  if (const Status status = Read(&text); !status.ok()) {
    // Between two names of an editor that replaces it, as a rule: the next event comes.
    LogWarning("{}: the vGPUs stay as they are", status.message());
    return false;
  }
  if (text == text_) return false;
  text_ = std::move(text);
  return true;
}

}  // namespace tessera
