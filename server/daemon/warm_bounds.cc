#include "server/daemon/warm_bounds.h"

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

size_t Share(uint64_t free_bytes, uint64_t each) { return free_bytes == 0 ? kWarmMax : free_bytes / kWarmShare / each; }

}  // namespace

size_t WarmWorkersWithin(const WarmBounds& bounds) {
  const size_t memory =
      std::min(Share(bounds.device_free_bytes, kWarmDeviceBytes), Share(bounds.host_free_bytes, kWarmHostBytes));
  const size_t within = std::clamp<size_t>(memory, 1, kWarmMax);
  return bounds.users ? std::min(within, *bounds.users / 2) : within;
}

uint64_t HostMemoryFree() {
  const uint64_t least = std::min(Machine("MemAvailable:"), ContainerFree());
  return least == kUnknown ? 0 : least;
}

uint64_t HostMemoryTotal() {
  const uint64_t least = std::min(Machine("MemTotal:"), NumberIn("/sys/fs/cgroup/memory.max"));
  return least == kUnknown ? 0 : least;
}

}  // namespace tessera
