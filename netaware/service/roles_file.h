// The roles in a file. The file is read again when it has changed; a broken one changes nothing.
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

  // With a helper, the file is looked at once in this time at most.
  static constexpr uint64_t kLookNs = 10'000'000;
  using OpenFile = std::function<Result<UniqueFd>(const std::string& path)>;

  // Root and this process's present user are administrators, regardless of the file. `path` empty: everybody else is a tenant.
  // `open_file` opens the file for a process that may not (protocol/keeper/helper.h). Errors: the file cannot be read, or those
  // of Roles::Parse().
  static Result<std::unique_ptr<RolesFile>> Open(const std::string& path, const OpenFile& open_file = {});
  // `told` is called by Current(), in its thread, when a changed file was accepted (kOk) or is broken. It must not call this
  // object. Call SetTold() before other threads use this object.
  void SetTold(std::function<void(const Status& status)> told) EXCLUDES(mutex_);
  // The present roles. Any thread.
  std::shared_ptr<const Roles> Current() EXCLUDES(mutex_);

 private:
  RolesFile(std::string path, const OpenFile& open_file);
  // Reads and parses an open file.
  Status Read(const UniqueFd& file) REQUIRES(mutex_);
  void Take(Roles roles) REQUIRES(mutex_);

  const std::string path_;
  const OpenFile open_file_;
  const uint64_t between_looks_ns_;
  const uid_t own_user_;
  Mutex mutex_;
  uint64_t look_ns_ GUARDED_BY(mutex_) = 0;  // no look before (MonotonicNs)
  struct stat seen_ GUARDED_BY(mutex_) {};
  std::shared_ptr<const Roles> roles_ GUARDED_BY(mutex_);
  std::function<void(const Status& status)> told_ GUARDED_BY(mutex_);
};

}  // namespace tessera
