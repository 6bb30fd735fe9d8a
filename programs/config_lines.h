// A file of settings as text: lines `KEY = VALUE`, which TOML reads the same way. Pure; any thread.
//
//   # whom to ask
//   placer = "tls://pool.example:4190"
//   gpus = 2
//   gpu-model = ["NVIDIA H200", "NVIDIA H100"]
//
// Keys are letters, digits, '-' and '_'. Values: text in "" (with \" and \\) or in '', a number, true or false, or a list of
// texts, which may go over several lines. There are no sections.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

struct ConfigLine {
  enum class Kind { kText, kNumber, kTruth, kList };

  std::string key;
  int line = 0;  // where the key is; the first one is 1
  Kind kind = Kind::kText;
  std::vector<std::string> values;  // one, but of a list; a number and a truth as they are written
};

// Of `text`, the file at `path`, in its order. kInvalidArgument with file, line and key: something else stands there, a value is
// cut off, a key is twice there or none of `keys` (with the nearest one). What is quoted of the file is made printable.
Result<std::vector<ConfigLine>> ParseConfigLines(std::string_view text, const std::string& path,
                                                 const std::vector<std::string_view>& keys);

// "a text", "a number", "true or false", "a list".
const char* WordOf(ConfigLine::Kind kind);
// The sentence of such an error.
Status ConfigError(const std::string& path, int line, const std::string& why);

}  // namespace tessera
