#include "protocol/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tessera {

Result<UniqueFd> OpenSmallFile(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    const StatusCode code = errno == ENOENT || errno == ENOTDIR ? StatusCode::kNotFound : StatusCode::kPermissionDenied;
    return Status(code, "cannot read " + path + ": " + std::strerror(errno));
  }
  return file;
}

Result<std::string> ReadSmallFile(const std::string& path, size_t bytes_max) {
  Result<UniqueFd> file = OpenSmallFile(path);
  return file.ok() ? ReadSmallFile(*file, path, bytes_max) : file.status();
}

Result<std::string> ReadSmallFile(const UniqueFd& file, const std::string& path, size_t bytes_max) {
  struct stat state {};
  if (fstat(file.get(), &state) != 0 || !S_ISREG(state.st_mode)) {
    return Status(StatusCode::kInvalidArgument, path + " is no ordinary file: give another one");
  }
  std::string text(bytes_max + 1, '\0');
  size_t have = 0;
  for (;;) {
    const ssize_t got = read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno("cannot read " + path, errno);
    have += static_cast<size_t>(got);
    if (got == 0 || have > bytes_max) break;
  }
  if (have > bytes_max)
    return Status(StatusCode::kInvalidArgument, path + " is too long for what it should hold: give another file");
  text.resize(have);
  return text;
}

}  // namespace tessera
