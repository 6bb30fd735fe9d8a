#include "netaware/service/roles_file.h"

#include <unistd.h>

#include <utility>

#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/wire/holder.h"

namespace tessera {

Result<std::unique_ptr<RolesFile>> RolesFile::Open(const std::string& path) {
  std::unique_ptr<RolesFile> file(new RolesFile(path));
  MutexLock lock(file->mutex_);
  RETURN_IF_ERROR(file->Read());
  return file;
}

void RolesFile::SetTold(std::function<void(const Status& status)> told) {
  MutexLock lock(mutex_);
  told_ = std::move(told);
}

std::shared_ptr<const Roles> RolesFile::Current() {
  MutexLock lock(mutex_);
  struct stat now {};
  if (path_.empty() || stat(path_.c_str(), &now) != 0) return roles_;
  const bool is_same = now.st_ino == seen_.st_ino && now.st_size == seen_.st_size && now.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
                       now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec;
  if (is_same) return roles_;
  seen_ = now;
  const Status status = Read();
  if (!status.ok()) LogError("the roles stay as they are: {}", status.message());
  if (told_) told_(status);
  return roles_;
}

Status RolesFile::Read() {
  Roles roles;
  if (!path_.empty()) {
    (void)stat(path_.c_str(), &seen_);
    const Result<std::string> text = ReadSmallFile(path_, kBytesMax);
    if (!text.ok()) return text.status();
    Result<Roles> parsed = Roles::Parse(text.value(), path_);
    if (!parsed.ok()) return parsed.status();
    roles = std::move(*parsed);
  }
  roles.of[UserHolder(0)] = Role::kAdmin;
  roles.of[UserHolder(geteuid())] = Role::kAdmin;
  roles_ = std::make_shared<const Roles>(std::move(roles));
  return Status::Ok();
}

}  // namespace tessera
