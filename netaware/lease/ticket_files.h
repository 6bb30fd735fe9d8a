// The files in which a job's processes find its tickets: one for each server, which this user alone may read.
#pragma once

#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

class TicketFiles {
 public:
  // In `directory`, which is there.
  explicit TicketFiles(std::string directory) : directory_(std::move(directory)) {}
  // Removes them.
  ~TicketFiles();
  TicketFiles(const TicketFiles&) = delete;
  TicketFiles& operator=(const TicketFiles&) = delete;

  // Writes those that are new, each as a whole: who reads has the old one or the new one. Errors: the file and why; those before
  // it are written.
  Status Write(const std::vector<std::string>& tickets);
  // With commas between them, in the order of the tickets.
  std::string paths() const;

 private:
  std::string PathOf(size_t number) const { return directory_ + "/ticket-" + std::to_string(number); }

  const std::string directory_;
  std::vector<std::string> written_;
};

}  // namespace tessera
