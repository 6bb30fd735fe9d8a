// A process beside one in a sandbox: it opens and connects for that one, which can do neither any more, and acts in its place.
//
//   Result<std::unique_ptr<HelperLine>> helper =
//       HelperLine::Start({.files = FilesOf(...), .places = {{"placer", dial}}, .acts = {{"replace", replace}}});
//   RETURN_IF_ERROR(EnterSandbox(...));
//   Result<UniqueFd> key = (*helper)->OpenFile(path);
//   Result<UniqueFd> connection = (*helper)->Dial("placer", deadline_ns);
//
// Whoever asks may have been taken over: the helper does what was named before it started, and looks at no byte of what is read
// or said. It has the rights of the process that started it, nothing that this one held, and ends with it.
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
  std::vector<std::string> files;              // that it opens to be read; "": none
  std::map<std::string, DialFunction> places;  // to which it connects, by name
  // What else it does, by name. Each is told a text of at most text_bytes_max, which anybody may have written.
  std::map<std::string, std::function<Status(const std::string& text)>> acts;
  size_t text_bytes_max = 0;
};

class HelperLine {
 public:
  // What it does at once; more are refused.
  static constexpr int kAtOnceMax = 64;

  // Starts the helper. Before the second thread of this process.
  static Result<std::unique_ptr<HelperLine>> Start(HelperOptions options);
  HelperLine(const HelperLine&) = delete;
  HelperLine& operator=(const HelperLine&) = delete;

  // For poll(): hung up once the helper has ended, which it does not do by itself.
  int fd() const { return line_.get(); }

  // Any thread, from here on. kUnavailable: there is no helper any more; kResourceExhausted: it has too much to do.

  // Errors as of OpenSmallFile(); kPermissionDenied: it is none of the files.
  Result<UniqueFd> OpenFile(const std::string& path);
  // Errors of the place's function; kPermissionDenied: there is no such place.
  Result<UniqueFd> Dial(const std::string& place, uint64_t deadline_ns);
  // Errors of the act; kInvalidArgument: the text is too long; kPermissionDenied: there is no such act.
  Status Act(const std::string& act, std::string_view text = {});

 private:
  explicit HelperLine(UniqueFd line) : line_(std::move(line)) {}

  const UniqueFd line_;
};

}  // namespace tessera
