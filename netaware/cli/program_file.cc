#include "netaware/cli/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "protocol/base/unique_fd.h"

namespace tessera {

namespace {

bool IsDirectory(const std::string& file) {
  struct stat info {};
  return stat(file.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

int WhyNotStartable(const std::string& file) {
  if (access(file.c_str(), X_OK) != 0) return errno;
  return IsDirectory(file) ? EISDIR : 0;
}

std::string FindProgram(const std::string& name, bool* startable) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), F_OK) == 0 ? name : "";
  const char* variable = getenv("PATH");
  const std::string path = variable == nullptr ? "/bin:/usr/bin" : variable;
  std::string found;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find(':', start), path.size());
    const std::string directory = end == start ? "." : path.substr(start, end - start);
    const std::string file = directory + "/" + name;
    const bool may = access(file.c_str(), X_OK) == 0;
    if (may && !IsDirectory(file)) {
      if (startable != nullptr) *startable = true;
      return file;
    }
    // Most directories of PATH have no such file: each of them costs one access().
    if (found.empty() && (may || (errno == EACCES && access(file.c_str(), F_OK) == 0))) found = file;
    start = end + 1;
  }
  return found;
}

bool IsElf(const std::string& file) {
  char magic[SELFMAG] = {};
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() && read(fd.get(), magic, SELFMAG) == SELFMAG && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

std::string InterpreterOf(const std::string& script) {
  std::ifstream file(script);
  std::string line;
  std::getline(file, line);
  if (!line.starts_with("#!")) return "";
  std::istringstream words(line.substr(2));
  std::string interpreter;
  std::string argument;
  words >> interpreter;
  if (!interpreter.ends_with("/env")) return interpreter;
  while (words >> argument && (argument.starts_with("-") || argument.find('=') != std::string::npos)) {
  }
  return FindProgram(argument);
}

}  // namespace tessera
