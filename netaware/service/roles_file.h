// Who may do what, by a file that may change: it is read again when it has, and a broken one changes nothing.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>

#include "netaware/service/roles.h"
#include "protocol/base/mutex.h"

namespace tessera {

class RolesFile {
 public:
  static constexpr size_t kBytesMax = 1 << 20;

  // `path` empty: everybody else is a tenant. Root and this process's user are administrators, whatever the file says. Errors: it
  // cannot be read, or as of Roles::Parse().
  static Result<std::unique_ptr<RolesFile>> Open(const std::string& path);
  // `told` hears, wherever Current() is called, that the file was taken up (kOk), or is broken. Before that, one thread.
  void SetTold(std::function<void(const Status& status)> told) EXCLUDES(mutex_);
  // As it is now. Any thread.
  std::shared_ptr<const Roles> Current() EXCLUDES(mutex_);

 private:
  explicit RolesFile(std::string path) : path_(std::move(path)) {}
  Status Read() REQUIRES(mutex_);

  const std::string path_;
  Mutex mutex_;
  struct stat seen_ GUARDED_BY(mutex_) {};
  std::shared_ptr<const Roles> roles_ GUARDED_BY(mutex_);
  std::function<void(const Status& status)> told_ GUARDED_BY(mutex_);
};

}  // namespace tessera
