// The files with a job's tickets, one for each server. Only this user may read them.
#pragma once

#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

class TicketFiles {
 public:
  // In `directory`, which exists.
  explicit TicketFiles(std::string directory) : directory_(std::move(directory)) {}
  // Removes the files.
  ~TicketFiles();
  TicketFiles(const TicketFiles&) = delete;
  TicketFiles& operator=(const TicketFiles&) = delete;

  // Writes the tickets that are new. A file is replaced as a whole, so a reader gets the old ticket or the new one. An error
  // names the file and the reason; the files before it are written.
  Status Write(const std::vector<std::string>& tickets);
  // The paths with commas between them, in the order of the tickets.
  std::string paths() const;

 private:
  std::string PathOf(size_t number) const { return directory_ + "/ticket-" + std::to_string(number); }

  const std::string directory_;
  std::vector<std::string> written_;
};

}  // namespace tessera
