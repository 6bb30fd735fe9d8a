#include "netaware/cli/program_reach.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "netaware/cli/program_file.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

// Linkers put the program headers at the beginning of a file. A shim is shorter than this.
constexpr size_t kHeadBytesMax = 4096;
constexpr int kStepsMax = 5;

bool ReadHead(const std::string& file, MachineCode* code) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if ((fd.valid() ? fstat(fd.get(), &info) : stat(file.c_str(), &info)) != 0 || !S_ISREG(info.st_mode)) return false;
  code->file = file;
  code->mode = info.st_mode;
  code->user = info.st_uid;
  code->group = info.st_gid;
  code->head.clear();
  if (!fd.valid()) return (info.st_mode & (S_ISUID | S_ISGID)) != 0;  // for example mode 4711
  code->head.resize(kHeadBytesMax);
  const ssize_t got = read(fd.get(), code->head.data(), code->head.size());
  code->head.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (code->head.starts_with(ELFMAG)) code->rights = fgetxattr(fd.get(), "security.capability", nullptr, 0) > 0;
  return got > 0;
}

bool IsShell(const std::string& interpreter) {
  const std::string name = interpreter.substr(interpreter.rfind('/') + 1);
  return name == "sh" || name == "bash" || name == "dash" || name == "zsh";
}

// The word after `exec`, without quotes; empty: the line starts nothing.
std::string ExecWord(std::string line) {
  // The form of pip and conda, which Python reads as a string: '''exec' "/a/long/path/python" "$0" "$@".
  for (const char* start : {"exec ", "'''exec' "}) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line.compare(begin, std::strlen(start), start) != 0) continue;
    line.erase(0, begin + std::strlen(start));
    line.erase(0, line.find_first_not_of(" \t"));
    const char quote = line.starts_with('"') || line.starts_with('\'') ? line[0] : ' ';
    return quote == ' ' ? line.substr(0, line.find(' ')) : line.substr(1, line.find(quote, 1) - 1);
  }
  return "";
}

// The one program that a shell script starts; empty: it starts several, or the path contains variables.
std::string ShimTarget(const MachineCode& script) {
  if (script.head.size() == kHeadBytesMax) return "";
  std::istringstream lines(script.head);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    const std::string word = ExecWord(line);
    if (word.empty()) continue;
    if (!found.empty() || word[0] != '/' || word.find('$') != std::string::npos) return "";
    found = word;
  }
  return found != script.file && access(found.c_str(), X_OK) == 0 ? found : "";
}

// Reads 64-bit headers. False: the program has no loader, or the file is damaged.
bool HasLoader(const std::string& head) {
  Elf64_Ehdr header{};
  if (head.size() < sizeof(header)) return false;
  std::memcpy(&header, head.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const uint64_t at = header.e_phoff + i * header.e_phentsize;
    if (at > head.size() || head.size() - at < sizeof(segment)) return true;  // a header beyond the read bytes: not known
    std::memcpy(&segment, head.data() + at, sizeof(segment));
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

// True if the program gets other rights than its caller's: the loader then ignores LD_LIBRARY_PATH.
bool HasRightsOfItsOwn(const MachineCode& code) {
  const bool other_user = (code.mode & S_ISUID) != 0 && code.user != geteuid();
  const bool other_group = (code.mode & S_ISGID) != 0 && code.group != getegid();
  return other_user || other_group || code.rights;
}

}  // namespace

std::optional<MachineCode> MachineCode::Of(const std::string& file) {
  MachineCode code;
  std::string next = file;
  for (int step = 0; step < kStepsMax && ReadHead(next, &code); ++step) {
    if (code.head.empty() || code.head.starts_with(ELFMAG)) return code;
    const std::string interpreter = InterpreterOf(next);
    next = IsShell(interpreter) ? ShimTarget(code) : "";
    if (next.empty()) next = interpreter;
  }
  return std::nullopt;
}

std::optional<Unreached> WhyUnreached(const MachineCode& code) {
  if (HasRightsOfItsOwn(code)) {
    return Unreached{
        code.file + " runs with rights of its own (set-user-ID or capabilities), with which the loader ignores LD_LIBRARY_PATH",
        "start a copy of it without them: cp " + code.file + " ."};
  }
  if (code.head.empty()) return std::nullopt;  // nobody knows
  const bool is_64 = code.head.size() > EI_CLASS && code.head[EI_CLASS] == ELFCLASS64;
  uint16_t machine = 0;
  if (code.head.size() >= sizeof(Elf64_Ehdr))
    std::memcpy(&machine, code.head.data() + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
  if (!is_64 && machine == EM_386) {
    return Unreached{code.file + " is a 32-bit program, and Tessera's library is for 64-bit ones",
                     "use a program for 64-bit x86 processors"};
  }
  if (!is_64 || machine != EM_X86_64)
    return Unreached{code.file + " is not for this kind of machine, or damaged", "use a program for 64-bit x86 processors"};
  if (!HasLoader(code.head)) {
    return Unreached{code.file + " is linked statically: it loads no libraries",
                     "link it with shared libraries (and nvcc's -cudart as you like)"};
  }
  return std::nullopt;
}

}  // namespace tessera
