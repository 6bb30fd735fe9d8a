// A file that a process writes at its end, of which every process of a run keeps one of its own: trace and statistics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

class ProcessFile {
 public:
  // `path`: as the user named it; "%p" in it is the process id. Without "%p" the first process that writes has the name as it
  // stands, and a later one gets its process id behind a dot: no process of a run takes another's file. `run_begun_ns`: when
  // the run began (Config::run_begun_ns): a file that is older is of an earlier run, and replaced. 0: unknown, and no file that
  // holds something is replaced. What is no regular file (/dev/stderr, a pipe) is written as it is.
  explicit ProcessFile(std::string path, uint64_t run_begun_ns = 0) : path_(std::move(path)), run_begun_ns_(run_begun_ns) {}

  const std::string& path() const { return path_; }

  // Writes the whole file, in one go. False: it could not be written; errno says why. One thread.
  bool Write(std::string_view text) const;

 private:
  const std::string path_;
  const uint64_t run_begun_ns_;
};

}  // namespace tessera
