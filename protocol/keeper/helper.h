// A process beside one in a sandbox. That one can neither open files nor connect any more, so the helper does both for it, and
// acts in its place.
//
//   Result<std::unique_ptr<HelperLine>> helper =
//       HelperLine::Start({.files = FilesOf(...), .places = {{"placer", dial}}, .acts = {{"replace", replace}}});
//   RETURN_IF_ERROR(EnterSandbox(...));
//   Result<UniqueFd> key = (*helper)->OpenFile(path);
//   Result<UniqueFd> connection = (*helper)->Dial("placer", deadline_ns);
//
// The process that asks may have been taken over. So the helper does only what was named before it started, and looks at no byte
// of what is read or said. It has the rights of the process that started it, none of its descriptors, and ends with it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/keeper/dialler.h"

namespace tessera {

struct HelperOptions {
  std::vector<std::string> files;              // files that it opens for reading; "" names none
  std::map<std::string, DialFunction> places;  // where it connects, by name
  // Other acts, by name. Each gets a text of at most text_bytes_max, which anybody may have written.
  std::map<std::string, std::function<Status(const std::string& text)>> acts;
  size_t text_bytes_max = 0;
};

class HelperLine {
 public:
  // How much it does at once; more is refused.
  static constexpr int kAtOnceMax = 64;

  // Starts the helper. Call it before the second thread of this process.
  static Result<std::unique_ptr<HelperLine>> Start(HelperOptions options);
  HelperLine(const HelperLine&) = delete;
  HelperLine& operator=(const HelperLine&) = delete;

  // For poll(): hung up once the helper has ended. It does not end by itself.
  int fd() const { return line_.get(); }

  // Any thread, from here on. Each call may fail with kUnavailable (the helper has ended), kResourceExhausted (it has too much to
  // do) or kTimedOut.

  // Opens one of `files` for reading. Errors are those of OpenSmallFile(); kPermissionDenied: it is none of the files.
  Result<UniqueFd> OpenFile(const std::string& path);
  // Connects to a place. Errors are those of its function; kPermissionDenied: there is no such place.
  Result<UniqueFd> Dial(const std::string& place, uint64_t deadline_ns);
  // Does an act. Errors are those of the act; kInvalidArgument: the text is too long; kPermissionDenied: there is no such act.
  Status Act(const std::string& act, std::string_view text = {});

 private:
  explicit HelperLine(UniqueFd line) : line_(std::move(line)) {}

  const UniqueFd line_;
};

}  // namespace tessera
