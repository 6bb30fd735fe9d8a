#include "netaware/node/host_id.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"
#include "protocol/ticket/ticket.h"

namespace tessera {
namespace {

constexpr size_t kDigits = 8;
constexpr size_t kMachineIdBytesMax = 4'096;

// FNV-1a: every build computes the same value.
uint32_t HashOf(std::string_view text) {
  uint32_t hash = 2'166'136'261;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16'777'619;
  return hash;
}

}  // namespace

std::string HostId(const std::string& host, const std::string& machine_id, const std::string& server_path) {
  const std::string name = Printable(host.empty() ? "host" : host, Ticket::kNameBytesMax - kDigits - 1);
  return fmt::format("{}-{:0{}x}", name, HashOf(machine_id + '\n' + server_path), kDigits);
}

std::string HostIdHere(const std::string& server_path) {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = 0;
  std::error_code error;
  const std::string path = std::filesystem::absolute(server_path, error).lexically_normal().string();
  const Result<std::string> machine_id = ReadSmallFile("/etc/machine-id", kMachineIdBytesMax);
  return HostId(host, machine_id.ok() ? machine_id.value() : "", path);
}

bool IsHostId(const std::string& text) {
  return !text.empty() && text.size() <= Ticket::kNameBytesMax && Printable(text) == text;
}

}  // namespace tessera
