#include "programs/config_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "protocol/base/nearest_name.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using Kind = ConfigLine::Kind;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsKey(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '-' || c == '_'; }

// An optional sign, digits, and digits behind a point.
bool IsNumber(std::string_view word) {
  if (!word.empty() && (word.front() == '-' || word.front() == '+')) word.remove_prefix(1);
  const size_t point = word.find('.');
  const std::string_view whole = word.substr(0, point);
  const std::string_view rest = point == std::string_view::npos ? "0" : word.substr(point + 1);
  const auto all_digits = [](std::string_view digits) {
    return !digits.empty() && std::all_of(digits.begin(), digits.end(), IsDigit);
  };
  return all_digits(whole) && all_digits(rest);
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& path, const std::vector<std::string_view>& keys)
      : text_(text), path_(path), keys_(keys) {}

  Result<std::vector<ConfigLine>> Run() {
    for (SkipAll(); !text_.empty(); SkipAll()) RETURN_IF_ERROR(Line());
    return std::move(lines_);
  }

 private:
  Status Wrong(const std::string& why) const { return ConfigError(path_, line_, why); }
  bool Starts(char c) const { return !text_.empty() && text_.front() == c; }
  bool AtEnd() const { return text_.empty() || text_.front() == '\n'; }

  void SkipSpaces() {
    while (Starts(' ') || Starts('\t') || text_.starts_with("\r\n")) text_.remove_prefix(1);
  }
  void SkipComment() {
    if (Starts('#')) text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
  }
  // Empty lines and comments too.
  void SkipAll() {
    for (;;) {
      SkipSpaces();
      SkipComment();
      if (!Starts('\n')) return;
      text_.remove_prefix(1);
      ++line_;
    }
  }
  std::string_view Take(size_t length) {
    const std::string_view taken = text_.substr(0, length);
    text_.remove_prefix(taken.size());
    return taken;
  }

  Status Line() {
    if (Starts('[')) return Wrong("there are no sections here: write KEY = VALUE");
    const auto key_end = std::find_if_not(text_.begin(), text_.end(), IsKey);
    ConfigLine line{
        .key = std::string(Take(static_cast<size_t>(key_end - text_.begin()))), .line = line_, .kind = {}, .values = {}};
    if (line.key.empty()) return Wrong("'" + Printable(text_.substr(0, text_.find('\n'))) + "' is no setting: write KEY = VALUE");
    if (std::find(keys_.begin(), keys_.end(), line.key) == keys_.end()) {
      return Wrong(fmt::format("there is no key '{}': the nearest is '{}'", Printable(line.key), NearestName(line.key, keys_)));
    }
    const auto before =
        std::find_if(lines_.begin(), lines_.end(), [&](const ConfigLine& other) { return other.key == line.key; });
    if (before != lines_.end()) return Wrong(fmt::format("the key '{}' is in line {} already", line.key, before->line));
    SkipSpaces();
    if (!Starts('=')) return Wrong(fmt::format("'=' and a value are missing behind the key '{}'", line.key));
    Take(1);
    SkipSpaces();
    RETURN_IF_ERROR(Value(&line));
    SkipSpaces();
    SkipComment();
    if (!AtEnd()) return Wrong(fmt::format("something follows the value of the key '{}'", line.key));
    lines_.push_back(std::move(line));
    return Status::Ok();
  }

  Status Value(ConfigLine* line) {
    if (Starts('"') || Starts('\'')) return Text(line);
    if (Starts('[')) return List(line);
    size_t end = 0;
    while (end < text_.size() && (IsKey(text_[end]) || text_[end] == '.' || text_[end] == '+' || text_[end] == ':')) ++end;
    const std::string word(Take(end));
    line->kind = IsNumber(word) ? Kind::kNumber : Kind::kTruth;
    line->values = {word};
    if (line->kind == Kind::kNumber || word == "true" || word == "false") return Status::Ok();
    return Wrong(fmt::format("the value of the key '{}' is no text in quotes, no number, and neither true nor false", line->key));
  }

  Status List(ConfigLine* line) {
    const int begins = line_;
    Take(1);
    for (SkipAll(); !Starts(']'); SkipAll()) {
      if (text_.empty()) return ConfigError(path_, begins, fmt::format("the list of the key '{}' has no end", line->key));
      if (!Starts('"') && !Starts('\''))
        return Wrong(fmt::format("the list of the key '{}' has something else than texts", line->key));
      RETURN_IF_ERROR(Text(line));
      SkipAll();
      if (Starts(',')) {
        Take(1);
      } else if (!Starts(']') && !text_.empty()) {
        return Wrong(fmt::format("a comma is missing in the list of the key '{}'", line->key));
      }
    }
    Take(1);
    line->kind = Kind::kList;
    return Status::Ok();
  }

  // Adds it to the values.
  Status Text(ConfigLine* line) {
    const char quote = Take(1).front();
    std::string value;
    while (!AtEnd() && !Starts(quote)) {
      char c = Take(1).front();
      if (c == '\\' && quote == '"') {
        if (!Starts('"') && !Starts('\\'))
          return Wrong(fmt::format("the text of the key '{}' has a '\\' that is neither \\\" nor \\\\", line->key));
        c = Take(1).front();
      } else if (const auto byte = static_cast<unsigned char>(c); byte < ' ' || byte == 0x7f) {
        return Wrong(fmt::format("the text of the key '{}' has a character that cannot be printed", line->key));
      }
      value += c;
    }
    if (AtEnd()) return Wrong(fmt::format("the text of the key '{}' has no closing quote", line->key));
    Take(1);
    line->values.push_back(std::move(value));
    return Status::Ok();
  }

  std::string_view text_;  // what is left
  const std::string& path_;
  const std::vector<std::string_view>& keys_;
  int line_ = 1;
  std::vector<ConfigLine> lines_;
};

}  // namespace

Status ConfigError(const std::string& path, int line, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, fmt::format("{}, line {}: {}", Printable(path), line, why));
}

const char* WordOf(Kind kind) {
  switch (kind) {
    case Kind::kText: return "a text";
    case Kind::kNumber: return "a number";
    case Kind::kTruth: return "true or false";
    case Kind::kList: return "a list";
  }
  return "";
}

Result<std::vector<ConfigLine>> ParseConfigLines(std::string_view text, const std::string& path,
                                                 const std::vector<std::string_view>& keys) {
  return Parser(text, path, keys).Run();
}

}  // namespace tessera
