#include "netaware/cli/server_description.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "protocol/wire/device_snapshot.h"

namespace tessera {
namespace {

std::optional<uint64_t> Find(const ServerReport& report, size_t device, Reading reading) {
  if (device >= report.readings.size()) return std::nullopt;
  for (const ServerReport::Value& value : report.readings[device]) {
    if (value.reading == reading) return value.value;
  }
  return std::nullopt;
}

std::string Mebibytes(uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }
std::string CudaVersion(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// An unreadable snapshot has no devices: the server's sentence says more than this side could.
DeviceSnapshot Snapshot(const ServerReport& report) {
  Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report.snapshot);
  return snapshot.ok() ? std::move(snapshot).value() : DeviceSnapshot{};
}

}  // namespace

std::string DescribeDevices(const std::string& url, const ServerReport& report) {
  const DeviceSnapshot snapshot = Snapshot(report);
  std::string text = fmt::format("{}: {}, driver {}{}, CUDA {}, {} of {} sessions\n", url, report.server, report.driver,
                                 report.driver_release.empty() ? "" : " " + report.driver_release,
                                 CudaVersion(snapshot.driver_version), report.sessions, report.sessions_max);
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const DeviceSnapshot::Device& device = snapshot.devices[i];
    text += fmt::format("device {}: {}, {}", i, device.name, Mebibytes(device.total_bytes));
    if (const auto used = Find(report, i, Reading::kMemoryUsedBytes)) text += fmt::format(", {} used", Mebibytes(*used));
    if (const auto load = Find(report, i, Reading::kGpuPercent)) text += fmt::format(", load {} %", *load);
    if (const auto power = Find(report, i, Reading::kPowerMilliwatts)) text += fmt::format(", {} W", *power / 1000);
    if (const auto heat = Find(report, i, Reading::kTemperatureCelsius)) text += fmt::format(", {} °C", *heat);
    text += "\n";
  }
  return text;
}

std::string DescribeServer(const std::string& url, const ServerReport& report) {
  std::string text = DescribeDevices(url, report);
  for (const ServerReport::Use& use : report.uses) {
    const bool known = use.used_bytes != ServerReport::Use::kUnknown;
    text += fmt::format("process {} uses {} of device {}\n", use.pid, known ? Mebibytes(use.used_bytes) : "memory", use.device);
  }
  return text;
}

nlohmann::json ServerAsJson(const std::string& url, const ServerReport& report) {
  const DeviceSnapshot snapshot = Snapshot(report);
  nlohmann::json json = {{"url", url},
                         {"server", report.server},
                         {"driver", report.driver},
                         {"cuda_version", CudaVersion(snapshot.driver_version)},
                         {"sessions", report.sessions},
                         {"sessions_max", report.sessions_max},
                         {"devices", nlohmann::json::array()},
                         {"uses", nlohmann::json::array()},
                         {"session_list", nlohmann::json::array()}};
  if (!report.driver_release.empty()) json["driver_release"] = report.driver_release;
  constexpr std::pair<const char*, Reading> kReadings[] = {{"memory_used_bytes", Reading::kMemoryUsedBytes},
                                                           {"gpu_percent", Reading::kGpuPercent},
                                                           {"power_milliwatts", Reading::kPowerMilliwatts},
                                                           {"temperature_celsius", Reading::kTemperatureCelsius}};
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const DeviceSnapshot::Device& device = snapshot.devices[i];
    nlohmann::json entry = {{"name", device.name}, {"uuid", device.UuidText()}, {"memory_bytes", device.total_bytes}};
    for (const auto& [key, reading] : kReadings) {
      if (const auto value = Find(report, i, reading)) entry[key] = *value;
    }
    json["devices"].push_back(std::move(entry));
  }
  for (const ServerReport::Use& use : report.uses) {
    nlohmann::json entry = {{"pid", use.pid}, {"device", use.device}};
    if (use.used_bytes != ServerReport::Use::kUnknown) entry["used_bytes"] = use.used_bytes;
    if (use.load.time_us != 0) entry["gpu_percent"] = use.load.sm_percent;
    json["uses"].push_back(std::move(entry));
  }
  for (const ServerReport::Session& session : report.session_list) {
    json["session_list"].push_back({{"session", session.session},
                                    {"pid", session.pid},
                                    {"age_seconds", session.age_ms / 1000},
                                    {"program", session.program}});
  }
  return json;
}

}  // namespace tessera
