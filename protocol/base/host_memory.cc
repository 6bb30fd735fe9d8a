#include "protocol/base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace tessera {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The number in a file that has nothing else; kUnknown for "max" and files that are not there.
uint64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : kUnknown;
}

// The number behind a word, in a file of such lines; kUnknown when it is not there.
uint64_t NumberBehind(const std::string& word, const std::string& path) {
  std::ifstream file(path);
  std::string first;
  uint64_t number = 0;
  for (std::string rest; file >> first >> number && std::getline(file, rest);) {
    if (first == word) return number;
  }
  return kUnknown;
}

uint64_t Machine(const std::string& word) {
  const uint64_t kib = NumberBehind(word, "/proc/meminfo");
  return kib == kUnknown ? kUnknown : kib << 10;
}

// A container sees its own control group at this place. Files that were read long ago count as used there, and go when they must.
uint64_t ContainerFree() {
  const uint64_t most = NumberIn("/sys/fs/cgroup/memory.max");
  uint64_t used = NumberIn("/sys/fs/cgroup/memory.current");
  if (most == kUnknown || used == kUnknown) return kUnknown;
  if (const uint64_t files = NumberBehind("inactive_file", "/sys/fs/cgroup/memory.stat"); files <= used) used -= files;
  return most > used ? most - used : 1;
}

// The least number in such a file of a group and those around it, whose folders have been `mount`.
uint64_t LeastIn(const std::string& mount, std::string group, const std::string& file) {
  uint64_t least = kUnknown;
  for (;;) {
    least = std::min(least, NumberIn(mount + group + "/" + file));
    if (group.empty()) return least;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

uint64_t ControlGroupMemoryLimit(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  // A container sees its own group at the top, whatever name it has outside.
  uint64_t least = std::min(NumberIn(mount + "/memory.max"), NumberIn(mount + "/memory/memory.limit_in_bytes"));
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/a/b" of version 2, "9:memory:/a/b" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    const std::string group = line.size() == second + 2 ? "" : line.substr(second + 1);
    if (kind.empty()) least = std::min(least, LeastIn(mount, group, "memory.max"));
    if (kind == "memory") least = std::min(least, LeastIn(mount + "/memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t HostMemoryFree() {
  const uint64_t least = std::min(Machine("MemAvailable:"), ContainerFree());
  return least == kUnknown ? 0 : least;
}

uint64_t HostMemoryTotal() {
  const uint64_t least = std::min(Machine("MemTotal:"), ControlGroupMemoryLimit());
  return least == kUnknown ? 0 : least;
}

}  // namespace tessera
