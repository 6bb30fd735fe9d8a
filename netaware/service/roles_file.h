// Who may do what, by a file that may change: it is read again when it has, and a broken one changes nothing.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "netaware/service/roles.h"
#include "protocol/base/mutex.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class RolesFile {
 public:
  static constexpr size_t kBytesMax = 1 << 20;

  // By a helper a file is looked at so often at most.
  static constexpr uint64_t kLookNs = 10'000'000;
  using OpenFile = std::function<Result<UniqueFd>(const std::string& path)>;

  // `path` empty: everybody else is a tenant. Root and this process's user, as it is now, are administrators, whatever the file
  // says. `open_file`: opens it for a process that may not (protocol/keeper/helper.h). Errors: it cannot be read, or as of
  // Roles::Parse().
  static Result<std::unique_ptr<RolesFile>> Open(const std::string& path, const OpenFile& open_file = {});
  // `told` hears, wherever Current() is called, that the file was taken up (kOk), or is broken. Before that, one thread.
  void SetTold(std::function<void(const Status& status)> told) EXCLUDES(mutex_);
  // As it is now. Any thread.
  std::shared_ptr<const Roles> Current() EXCLUDES(mutex_);

 private:
  RolesFile(std::string path, const OpenFile& open_file);
  // Of an open file.
  Status Read(const UniqueFd& file) REQUIRES(mutex_);
  void Take(Roles roles) REQUIRES(mutex_);

  const std::string path_;
  const OpenFile open_file_;
  const uint64_t between_looks_ns_;
  const uid_t own_user_;
  Mutex mutex_;
  uint64_t look_ns_ GUARDED_BY(mutex_) = 0;  // not before (MonotonicNs)
  struct stat seen_ GUARDED_BY(mutex_) {};
  std::shared_ptr<const Roles> roles_ GUARDED_BY(mutex_);
  std::function<void(const Status& status)> told_ GUARDED_BY(mutex_);
};

}  // namespace tessera
