// Text files of this folder: lines of words with a space between them. One thread for each reader.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace tessera {

// Reads the words of one line, one after another. It has failed for good after the first word that is missing or malformed.
class LineWords {
 public:
  explicit LineWords(std::string_view line) : rest_(line) {}

  // Empty at the end of the line.
  std::string_view Word() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    if (word.empty()) failed_ = true;
    return word;
  }
  // A number of this type, written in decimals, and nothing else.
  template <typename T>
  T Number() {
    const std::string_view word = Word();
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) failed_ = true;
    return value;
  }
  // Whether nothing has failed and nothing is left.
  bool Done() const { return !failed_ && rest_.find_first_not_of(' ') == std::string_view::npos; }
  bool AtEnd() const { return rest_.find_first_not_of(' ') == std::string_view::npos; }
  void Fail() { failed_ = true; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

// Takes the next line off `text`, without its end. False when there is none; a last line without an end was cut off and does not
// count.
inline bool TakeLine(std::string_view* text, std::string_view* line) {
  const size_t end = text->find('\n');
  if (end == std::string_view::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  return true;
}

}  // namespace tessera
