#include "protocol/rpc/request_id.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>
#include <cstdio>

namespace tessera {

std::string NewRequestId() {
  std::array<unsigned char, 16> bytes{};
  // getrandom() never blocks once the machine has started.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::perror("tessera: getrandom");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace tessera
