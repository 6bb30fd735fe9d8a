// What the workers of one server see as /dev/shm: the driver keeps there what processes share that share events, and programs of
// the machine keep there what is none of a client's business.
#pragma once

#include <sys/types.h>

#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// A new directory in /dev/shm, `path`, of the user `owner` alone. It goes with this object, and with the next one that is made by
// whoever may remove it where this process was killed.
class SharedDirectory {
 public:
  SharedDirectory() = default;  // none
  static Result<SharedDirectory> Make(uid_t owner, const std::string& above = "/dev/shm");
  ~SharedDirectory();
  SharedDirectory(SharedDirectory&& other) noexcept;
  SharedDirectory& operator=(SharedDirectory&& other) noexcept;

  const std::string& path() const { return path_; }  // empty: none

 private:
  std::string path_;
  UniqueFd lock_;  // held as long as the directory is in use
};

}  // namespace tessera
