// The file of vGPUs (--vgpus) as the daemon watches it: it reads the text, and the broker what stands in it. One thread.
#pragma once

#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/gate/broker_line.h"

namespace tessera {

class WatchedVgpuFile {
 public:
  // Watches the file's directory, since editors put a new file in its place (inotify(7)).
  // kNotFound, kPermissionDenied, kResourceExhausted (more than kVgpuFileBytesMax): the sentence names the file.
  static Result<WatchedVgpuFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }
  int fd() const { return watch_.get(); }  // for poll()
  // Reads the file again after something has happened to it. True when its text is another one. What cannot be read is said in
  // the log, and the former text stays.
  bool Look();

 private:
  WatchedVgpuFile(std::string path, UniqueFd watch) : path_(std::move(path)), watch_(std::move(watch)) {}
  Status Read(std::string* text) const;

  std::string path_;
  UniqueFd watch_;
  std::string text_;
};

}  // namespace tessera
