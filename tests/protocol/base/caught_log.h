// What this process logs meanwhile, for tests.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class CaughtLog {
 public:
  // `flags` of pipe2().
  explicit CaughtLog(int flags = 0) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | flags) != 0) return;
    from_.reset(ends[0]);
    to_.reset(ends[1]);
    SetLogFile(to_.get());
  }
  ~CaughtLog() {
    SetLogFile(STDERR_FILENO);
    SetLogName("tessera");
  }
  int from() const { return from_.get(); }
  int to() const { return to_.get(); }
  // What is there by now.
  std::string Taken() {
    std::string text(size_t{1} << 16, '\0');
    const ssize_t count = read(from_.get(), text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }
  // All of it; nothing can be logged any more.
  std::string Text() {
    to_.reset();
    return Taken();
  }

 private:
  UniqueFd from_;
  UniqueFd to_;
};

}  // namespace tessera
