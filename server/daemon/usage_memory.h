// A page that a worker's emulated devices write (server/usage_page.h) and the daemon reads.
#pragma once

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/usage_page.h"

namespace tessera {

class UsageMemory {
 public:
  static Result<UsageMemory> Make();
  UsageMemory(UsageMemory&& other) noexcept;
  UsageMemory& operator=(UsageMemory&&) = delete;
  ~UsageMemory();

  int fd() const { return file_.get(); }
  const UsagePage& page() const { return *page_; }

 private:
  UsageMemory(UniqueFd file, UsagePage* page) : file_(std::move(file)), page_(page) {}

  UniqueFd file_;
  UsagePage* page_;
};

}  // namespace tessera
