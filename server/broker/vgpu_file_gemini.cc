// Gemini's form of a file of vGPUs, and ST-vGPU's.
#include <fmt/core.h>

#include <charconv>

#include "protocol/base/printable.h"
#include "server/broker/vgpu_file.h"

namespace tessera {
namespace {

constexpr std::string_view kForm = "ID REQUEST LIMIT GPU_MEM, or ID REQUEST LIMIT SM% GPU_MEM";

std::vector<std::string_view> WordsOf(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
}

template <typename Number>
bool Parse(std::string_view word, Number* number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
  return error == std::errc() && end == word.data() + word.size();
}

// One vGPU; `words` are those of its line.
Result<FileVgpu> ReadLine(size_t line, const std::vector<std::string_view>& words) {
  if (words.size() != 4 && words.size() != 5) {
    return AtLine(line, fmt::format("{} words, where {} belongs", words.size(), kForm));
  }
  FileVgpu vgpu{.line = line};
  vgpu.spec.name = words[0];
  if (!Parse(words[1], &vgpu.spec.request)) return AtLine(line, fmt::format("REQUEST '{}' is no number", Printable(words[1])));
  if (!Parse(words[2], &vgpu.spec.limit)) return AtLine(line, fmt::format("LIMIT '{}' is no number", Printable(words[2])));
  double percent = 100;
  if (words.size() == 5 && (!Parse(words[3], &percent) || !(percent > 0 && percent <= 100))) {
    return AtLine(line, fmt::format("SM% '{}' is not above 0 and up to 100", Printable(words[3])));
  }
  if (!Parse(words.back(), &vgpu.spec.memory_bytes))
    return AtLine(line, fmt::format("GPU_MEM '{}' is no number of bytes", Printable(words.back())));
  return vgpu;
}

}  // namespace

Result<VgpuFile> ReadGeminiVgpus(std::string_view text) {
  VgpuFile file;
  size_t announced = 0;
  size_t announced_line = 0;
  bool partitions = false;
  for (size_t line = 1; !text.empty(); ++line) {
    const std::string_view words_of = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(words_of.size() + 1, text.size()));
    const std::vector<std::string_view> words = WordsOf(words_of);
    if (words.empty()) continue;
    if (announced_line == 0) {
      if (!Parse(words[0], &announced)) return AtLine(line, fmt::format("'{}' is no number of lines", Printable(words[0])));
      announced_line = line;
      continue;
    }
    if (file.vgpus.size() == announced)
      return AtLine(line, fmt::format("line {} says that {} follow, and this is one more", announced_line, announced));
    Result<FileVgpu> vgpu = ReadLine(line, words);
    if (!vgpu.ok()) return vgpu.status();
    partitions |= words.size() == 5;
    file.vgpus.push_back(std::move(vgpu).value());
  }
  if (file.vgpus.size() != announced) {
    return AtLine(announced_line, fmt::format("{} lines are to follow, and {} do", announced, file.vgpus.size()));
  }
  if (partitions) file.notes.emplace_back("SM% is read, and not enforced yet");
  return file;
}

}  // namespace tessera
