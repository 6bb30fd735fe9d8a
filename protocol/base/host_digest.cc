#include "protocol/base/host_digest.h"

#include <cctype>
#include <fstream>

namespace tessera {

std::string HostDigest() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string digits;
  for (char each = 0; digits.size() < 16 && file.get(each);) {
    if (std::isxdigit(static_cast<unsigned char>(each)) != 0) digits.push_back(each);
  }
  return digits.size() == 16 ? digits : std::string();
}

}  // namespace tessera
