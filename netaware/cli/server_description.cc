#include "netaware/cli/server_description.h"

#include <fmt/core.h>

#include <algorithm>
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

// The work that was queued before its device was shared: its time, or a lower bound of it.
std::string DescribeBacklog(const ServerReport::Vgpu& vgpu) {
  if (vgpu.queued_before_ms == 0 && !vgpu.queued_before_runs) return "-";
  return fmt::format("{}{:.1f} s", vgpu.queued_before_runs ? "> " : "", static_cast<double>(vgpu.queued_before_ms) / 1e3);
}

// The vGPU's held memory and its limit.
std::string DescribeMemory(const ServerReport::Vgpu& vgpu) {
  if (vgpu.memory_limit_bytes == 0) return "-";
  return fmt::format("{} of {}", Mebibytes(vgpu.memory_held_bytes), Mebibytes(vgpu.memory_limit_bytes));
}

std::string VgpuHeading(bool narrow) {
  if (narrow) return fmt::format("{:>16} {:>5} {:>5} {:>7} {:>4} {:>18}\n", "VGPU", "REQ", "LIMIT", "GOT 1 S", "SESS", "MEMORY");
  return fmt::format("{:>16} {:>8} {:>6} {:>8} {:>8} {:>8} {:>10} {:>13} {:>21}  {}\n", "VGPU", "REQUEST", "LIMIT", "GOT 1 S",
                     "GOT 10 S", "SESSIONS", "WAITED", "QUEUED BEFORE", "MEMORY", "");
}

std::string VgpuLine(const ServerReport::Vgpu& vgpu, bool metered, bool narrow) {
  const auto percent = [&](double share) { return metered ? fmt::format("{:.1f} %", 100 * share) : "-"; };
  if (narrow) {
    const std::string memory = vgpu.memory_limit_bytes == 0
                                   ? "-"
                                   : fmt::format("{} of {}", vgpu.memory_held_bytes >> 20, Mebibytes(vgpu.memory_limit_bytes));
    return fmt::format("{:>16.16} {:>3.0f} % {:>3.0f} % {:>7} {:>4} {:>18}\n", vgpu.name, 100 * vgpu.request, 100 * vgpu.limit,
                       percent(vgpu.got_1s), vgpu.sessions, memory);
  }
  return fmt::format("{:>16} {:>6.0f} % {:>4.0f} % {:>8} {:>8} {:>8} {:>8.1f} s {:>13} {:>21}  {}\n", vgpu.name,
                     100 * vgpu.request, 100 * vgpu.limit, percent(vgpu.got_1s), percent(vgpu.got_10s), vgpu.sessions,
                     static_cast<double>(vgpu.waited_ms) / 1e3, DescribeBacklog(vgpu), DescribeMemory(vgpu),
                     vgpu.waits ? "waits" : "");
}

// The error of a server whose agent has printed the reason on stderr.
constexpr const char* kSaidBefore = "its agent does not reach it, and has said why on stderr";

// An unreadable snapshot counts as one without devices: the server's own sentence is more precise.
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
  if (report.ending) text += fmt::format("{} is ending, {} sessions left\n", url, report.sessions);
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const DeviceSnapshot::Device& device = snapshot.devices[i];
    text += fmt::format("device {}: {}, {}", i, device.name, Mebibytes(device.total_bytes));
    if (const auto used = Find(report, i, Reading::kMemoryUsedBytes)) text += fmt::format(", {} used", Mebibytes(*used));
    if (const auto load = Find(report, i, Reading::kGpuPercent)) text += fmt::format(", load {} %", *load);
    if (const auto power = Find(report, i, Reading::kPowerMilliwatts)) text += fmt::format(", {} W", *power / 1000);
    if (const auto heat = Find(report, i, Reading::kTemperatureCelsius)) text += fmt::format(", {} °C", *heat);
    if (i < report.context_bytes.size() && report.context_bytes[i] != 0) {
      text += fmt::format(", {} for each program's context", Mebibytes(report.context_bytes[i]));
    }
    text += "\n";
  }
  return text;
}

std::string DescribeVgpus(const ServerReport& report, bool narrow) {
  std::string text;
  if (!report.vgpu_problem.empty()) text += fmt::format("vGPUs stay as they were: {}\n", report.vgpu_problem);
  for (const ServerReport::Sharing& sharing : report.sharings) {
    // A device with `default` alone is not divided.
    const auto divides = [&](const ServerReport::Vgpu& vgpu) { return vgpu.device == sharing.device && vgpu.name != "default"; };
    if (std::ranges::none_of(report.vgpus, divides)) continue;
    text += fmt::format("device {} is {}, policy {}", sharing.device, sharing.mode, sharing.policy);
    if (sharing.unreported != 0) text += fmt::format("; {} sessions used it without reporting it", sharing.unreported);
    if (sharing.unreported_memory != 0)
      text += fmt::format("; {} sessions used more of its memory than they report", sharing.unreported_memory);
    text += "\n";
    text += VgpuHeading(narrow);
    for (const ServerReport::Vgpu& vgpu : report.vgpus) {
      if (vgpu.device == sharing.device) text += VgpuLine(vgpu, sharing.mode == "metered", narrow);
    }
  }
  return text;
}

std::string DescribeHolder(const ServerReport::Session& session) {
  return fmt::format("{}{}{} ({})", session.user, session.user.empty() || session.host.empty() ? "" : "@", session.host,
                     session.name);
}

std::string DescribeOthers(const ServerReport& report) {
  if (report.other_sessions == 0) return "";
  std::string text = fmt::format("sessions of others: {}", report.other_sessions);
  for (const ServerReport::Others& others : report.others) {
    text += fmt::format("; {} of device {}, by {}", Mebibytes(others.used_bytes), others.device, others.sessions);
  }
  return text + "\n";
}

std::string DescribeServer(const std::string& url, const ServerReport& report) {
  std::string text = DescribeDevices(url, report) + DescribeVgpus(report);
  for (const ServerReport::Use& use : report.uses) {
    const bool known = use.used_bytes != ServerReport::Use::kUnknown;
    const auto session = std::ranges::find(report.session_list, use.session, &ServerReport::Session::session);
    const std::string whose = session == report.session_list.end() ? "" : " of " + DescribeHolder(*session);
    text += fmt::format("process {}{} uses {} of device {}\n", use.pid, whose, known ? Mebibytes(use.used_bytes) : "memory",
                        use.device);
  }
  return text + DescribeOthers(report);
}

nlohmann::json ServerAsJson(const std::string& url, const ServerReport& report) {
  const DeviceSnapshot snapshot = Snapshot(report);
  nlohmann::json json = {{"url", url},
                         {"server", report.server},
                         {"driver", report.driver},
                         {"cuda_version", CudaVersion(snapshot.driver_version)},
                         {"sessions", report.sessions},
                         {"sessions_max", report.sessions_max},
                         {"ending", report.ending},
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
    if (i < report.context_bytes.size() && report.context_bytes[i] != 0) entry["context_bytes"] = report.context_bytes[i];
    json["devices"].push_back(std::move(entry));
  }
  for (const ServerReport::Use& use : report.uses) {
    nlohmann::json entry = {{"pid", use.pid}, {"device", use.device}, {"session", use.session}};
    if (use.used_bytes != ServerReport::Use::kUnknown) entry["used_bytes"] = use.used_bytes;
    if (use.load.time_us != 0) entry["gpu_percent"] = use.load.sm_percent;
    json["uses"].push_back(std::move(entry));
  }
  for (const ServerReport::Session& session : report.session_list) {
    json["session_list"].push_back({{"session", session.session},
                                    {"pid", session.pid},
                                    {"age_seconds", session.age_ms / 1000},
                                    {"program", session.program},
                                    {"user", session.user},
                                    {"host", session.host},
                                    {"name", session.name}});
    if (!session.vgpus.empty()) json["session_list"].back()["vgpu"] = session.vgpus;
  }
  json["holders"] = nlohmann::json::array();
  for (const ServerReport::Holder& holder : report.holders) {
    json["holders"].push_back({{"name", holder.name},
                               {"sessions", holder.sessions},
                               {"starts_waiting", holder.starts_waiting},
                               {"shared_objects", holder.shared_objects},
                               {"descriptors", holder.descriptors},
                               {"host_memory_bytes", holder.host_memory_bytes}});
  }
  json["other_sessions"] = report.other_sessions;
  for (const ServerReport::Others& others : report.others) {
    if (others.device >= json["devices"].size()) continue;
    json["devices"][others.device]["other_sessions"] = others.sessions;
    json["devices"][others.device]["others_used_bytes"] = others.used_bytes;
  }
  if (!report.audit.empty()) json["audit"] = report.audit;
  if (!report.vgpu_problem.empty()) json["vgpu_problem"] = report.vgpu_problem;
  for (const ServerReport::Sharing& sharing : report.sharings) {
    if (sharing.device >= json["devices"].size()) continue;
    json["devices"][sharing.device]["policy"] = sharing.policy;
    json["devices"][sharing.device]["sharing"] = sharing.mode;
    json["devices"][sharing.device]["unreported_sessions"] = sharing.unreported;
    json["devices"][sharing.device]["unreported_memory_sessions"] = sharing.unreported_memory;
  }
  if (!report.vgpus.empty()) json["vgpus"] = nlohmann::json::array();
  for (const ServerReport::Vgpu& vgpu : report.vgpus) {
    json["vgpus"].push_back({{"name", vgpu.name},
                             {"device", vgpu.device},
                             {"request", vgpu.request},
                             {"limit", vgpu.limit},
                             {"priority", vgpu.priority},
                             {"sessions", vgpu.sessions},
                             {"waits", vgpu.waits},
                             {"got_1s", vgpu.got_1s},
                             {"got_10s", vgpu.got_10s},
                             {"waited_ms", vgpu.waited_ms},
                             {"queued_before_ms", vgpu.queued_before_ms},
                             {"queued_before_runs", vgpu.queued_before_runs},
                             {"memory_limit_bytes", vgpu.memory_limit_bytes},
                             {"memory_held_bytes", vgpu.memory_held_bytes}});
    nlohmann::json& kinds = json["vgpus"].back()["memory_held_by_kind"];
    for (size_t kind = 0; kind < kMemoryKinds; ++kind)
      kinds[std::string(kMemoryKindNames[kind])] = vgpu.memory_held_by_kind[kind];
  }
  return json;
}

nlohmann::json ServersAsJson(const std::vector<ReachedServer>& servers) {
  nlohmann::json list = nlohmann::json::array();
  for (const ReachedServer& one : servers) {
    list.push_back(one.problem.exit_code == kExitOk
                       ? ServerAsJson(one.address.url, one.report)
                       : nlohmann::json{{"url", one.address.url},
                                        {"error", one.problem.sentence.empty() ? std::string(kSaidBefore) : one.problem.sentence},
                                        {"exit_code", one.problem.exit_code}});
  }
  return {{"schema_version", kServerSchemaVersion}, {"servers", std::move(list)}};
}

std::string JsonText(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tessera
