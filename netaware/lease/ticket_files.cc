#include "netaware/lease/ticket_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "protocol/base/unique_fd.h"

namespace tessera {

TicketFiles::~TicketFiles() {
  for (size_t i = 0; i < written_.size(); ++i) unlink(PathOf(i).c_str());
}

Status TicketFiles::Write(const std::vector<std::string>& tickets) {
  for (size_t i = 0; i < tickets.size(); ++i) {
    const std::string& ticket = tickets[i];
    if (i < written_.size() && written_[i] == ticket) continue;
    const std::string path = PathOf(i), fresh = path + ".new";
    UniqueFd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file.valid()) return Status::FromErrno("cannot make the ticket file " + fresh, errno);
    const ssize_t put = write(file.get(), ticket.data(), ticket.size());
    if (put != static_cast<ssize_t>(ticket.size()))
      return Status::FromErrno("cannot write the ticket file " + fresh, put < 0 ? errno : ENOSPC);
    if (rename(fresh.c_str(), path.c_str()) != 0) return Status::FromErrno("cannot replace the ticket file " + path, errno);
    if (i == written_.size()) written_.emplace_back();
    written_[i] = ticket;
  }
  return Status::Ok();
}

std::string TicketFiles::paths() const {
  std::string paths;
  for (size_t i = 0; i < written_.size(); ++i) paths += (i == 0 ? "" : ",") + PathOf(i);
  return paths;
}

}  // namespace tessera
