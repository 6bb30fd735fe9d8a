#include "netaware/service/roles_file.h"

#include <unistd.h>

#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/wire/holder.h"

namespace tessera {

RolesFile::RolesFile(std::string path, const OpenFile& open_file)
    : path_(std::move(path)),
      open_file_(open_file ? open_file : OpenFile([](const std::string& path) { return OpenSmallFile(path); })),
      between_looks_ns_(open_file ? kLookNs : 0),
      own_user_(geteuid()) {}

Result<std::unique_ptr<RolesFile>> RolesFile::Open(const std::string& path, const OpenFile& open_file) {
  std::unique_ptr<RolesFile> file(new RolesFile(path, open_file));
  MutexLock lock(file->mutex_);
  if (path.empty()) {
    file->Take({});
    return file;
  }
  Result<UniqueFd> opened = file->open_file_(path);
  if (!opened.ok()) return opened.status();
  (void)fstat(opened->get(), &file->seen_);
  RETURN_IF_ERROR(file->Read(*opened));
  return file;
}

void RolesFile::SetTold(std::function<void(const Status& status)> told) {
  MutexLock lock(mutex_);
  told_ = std::move(told);
}

std::shared_ptr<const Roles> RolesFile::Current() {
  MutexLock lock(mutex_);
  const uint64_t now_ns = MonotonicNs();
  if (path_.empty() || now_ns < look_ns_) return roles_;
  look_ns_ = now_ns + between_looks_ns_;
  Result<UniqueFd> file = open_file_(path_);
  struct stat now {};
  if (!file.ok() || fstat(file->get(), &now) != 0) return roles_;
  const bool is_same = now.st_ino == seen_.st_ino && now.st_size == seen_.st_size && now.st_mtim.tv_sec == seen_.st_mtim.tv_sec &&
                       now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec;
  if (is_same) return roles_;
  seen_ = now;
  const Status status = Read(*file);
  if (!status.ok()) LogError("the roles stay as they are: {}", status.message());
  if (told_) told_(status);
  return roles_;
}

Status RolesFile::Read(const UniqueFd& file) {
  const Result<std::string> text = ReadSmallFile(file, path_, kBytesMax);
  if (!text.ok()) return text.status();
  Result<Roles> parsed = Roles::Parse(text.value(), path_);
  if (!parsed.ok()) return parsed.status();
  Take(std::move(*parsed));
  return Status::Ok();
}

void RolesFile::Take(Roles roles) {
  roles.of[UserHolder(0)] = Role::kAdmin;
  roles.of[UserHolder(own_user_)] = Role::kAdmin;
  roles_ = std::make_shared<const Roles>(std::move(roles));
}

}  // namespace tessera
