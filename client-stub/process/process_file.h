// A file that a process writes at its end: trace or statistics. Every process of a run has its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

class ProcessFile {
 public:
  // `path`: the user's name for it; "%p" in it becomes the process id. Without "%p" the first process that writes takes the plain
  // name, and later ones append a dot and their process id: no process takes another's file. `run_begun_ns`:
  // Config::run_begun_ns. An older file is of an earlier run, and is replaced. 0: unknown; only empty files are replaced. A path
  // that is no regular file (/dev/stderr, a pipe) is written as it is.
  explicit ProcessFile(std::string path, uint64_t run_begun_ns = 0) : path_(std::move(path)), run_begun_ns_(run_begun_ns) {}

  const std::string& path() const { return path_; }

  // Writes the whole file, in one go. False: it could not be written; errno says why. One thread.
  bool Write(std::string_view text) const;

 private:
  const std::string path_;
  const uint64_t run_begun_ns_;
};

}  // namespace tessera
