#include "server/daemon/device_probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/wire/handshake.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/child_report.h"
#include "server/daemon/children/exit_codes.h"
#include "server/daemon/readings/context_cost.h"
#include "server/worker/snapshot_builder.h"

namespace tessera {
namespace {

// Nobody makes it.
constexpr const char* kNoMpsServer = "/proc/self/no-mps-server";

std::string Hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::vector<std::byte> FromHex(const std::string& text) {
  std::vector<std::byte> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint8_t value = 0;
    std::from_chars(&text[2 * i], &text[2 * i] + 2, value, 16);
    bytes[i] = std::byte{value};
  }
  return bytes;
}

// Takes "error TEXT", or the lines "driver TEXT", "file PATH", "version N", "device NAME" and "context BYTES" apart.
Result<DeviceList> ParseReport(const std::string& report) {
  DeviceList devices;
  bool complete = false;
  for (size_t start = 0; start < report.size();) {
    const size_t end = std::min(report.find('\n', start), report.size());
    const std::string line = report.substr(start, end - start);
    start = end + 1;
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "error") return Status(StatusCode::kNotFound, rest);
    if (word == "driver") devices.driver = rest;
    if (word == "file") devices.file = rest;
    if (word == "version") devices.version = std::atoi(rest.c_str());
    if (word == "priorities") devices.priorities = rest;
    if (word == "device") devices.names.push_back(rest);
    if (word == "snapshot") devices.snapshot = FromHex(rest);
    if (word == "context") devices.context_bytes.push_back(std::strtoull(rest.c_str(), nullptr, 10));
    if (word == "end") complete = true;
  }
  if (!complete) return Status(StatusCode::kInternal, "the device probe ended without an answer");
  return devices;
}

// Loads what --driver names and initialises it. `resolved` is the name to give to workers.
Result<std::unique_ptr<Driver>> Open(const std::string& choice, std::string* resolved) {
  *resolved = choice == "auto" ? "cuda" : choice;
  Result<std::unique_ptr<Driver>> driver = LoadChosenDriver(*resolved);
  Status status = driver.ok() ? Status::Ok() : driver.status();
  if (driver.ok()) {
    const Result<int> count = driver.value()->CountDevices();
    if (count.ok()) return driver;
    status = count.status();
  }
  if (choice != "auto") return status;
  LogInfo("using the software GPU: {}", status.message());
  *resolved = "emulator";
  Result<std::unique_ptr<Driver>> emulator = LoadChosenDriver(*resolved);
  if (!emulator.ok()) {
    return Status(StatusCode::kNotFound, status.message() + "; and the software GPU: " + emulator.status().message());
  }
  if (const Result<int> count = emulator.value()->CountDevices(); !count.ok()) return count.status();
  return emulator;
}

Result<std::string> Report(const std::string& choice, bool measure_contexts) {
  std::string resolved;
  Result<std::unique_ptr<Driver>> driver = Open(choice, &resolved);
  if (!driver.ok()) return driver.status();
  const DriverTable& table = driver.value()->table();
  int version = 0;
  int count = 0;
  table.cuDriverGetVersion(&version);
  if (const CUresult result = table.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return Status(StatusCode::kNotFound, fmt::format("the driver cannot list its devices (CUDA error {})", int{result}));
  }
  std::string report = fmt::format("driver {}\nfile {}\nversion {}\n", resolved, driver.value()->path(), version);
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    std::array<char, 256> device_name{};
    if (table.cuDeviceGet(&device, i) != CUDA_SUCCESS ||
        table.cuDeviceGetName(device_name.data(), device_name.size() - 1, device) != CUDA_SUCCESS) {
      return Status(StatusCode::kNotFound, fmt::format("the driver cannot open device {}", i));
    }
    report += fmt::format("device {}\n", device_name.data());
  }
  Result<std::vector<StreamPriorities>> priorities = AskPriorities(table);
  if (!priorities.ok()) return priorities.status();
  const Result<DeviceSnapshot> snapshot = BuildSnapshot(table, *priorities);
  if (!snapshot.ok()) return snapshot.status();
  Encoder encoder(kSnapshotBytesMax);
  snapshot.value().Encode(encoder);
  if (measure_contexts) {
    for (const uint64_t bytes : MeasureContexts(table, snapshot.value(), resolved == "emulator"))
      report += fmt::format("context {}\n", bytes);
  }
  return report + fmt::format("priorities {}\nsnapshot {}\nend\n", FormatPriorities(*priorities), Hex(encoder.bytes()));
}

}  // namespace

Result<DeviceList> ProbeDevices(const std::string& driver, const std::string& log_word, bool measure_contexts) {
  std::vector<std::string> arguments = {"--driver", driver, "--log", log_word};
  if (measure_contexts) arguments.emplace_back("--measure-contexts");
  const Result<std::string> report = ReportOfChild(kProbeLogName, "--probe-fd", std::move(arguments));
  if (!report.ok()) return Status(StatusCode::kNotFound, "loading the driver failed: " + report.status().message());
  return ParseReport(report.value());
}

int RunProbe(const std::string& driver, bool measure_contexts, int fd) {
  const Result<std::string> report = Report(driver, measure_contexts);
  const std::string text = report.ok() ? report.value() : "error " + report.status().message() + "\n";
  if (!WriteReport(fd, text)) return kServiceInternal;
  return report.ok() ? int{kServiceOk} : int{kExitNoDevice};
}

Result<std::unique_ptr<Driver>> LoadChosenDriver(const std::string& choice) {
  // Sessions share nothing of one process: an MPS server of this machine, which the driver joins by itself, would put them all in
  // one, and a fault of one would end them all. Source: Multi-Process Service, "Environment Variables".
  setenv("CUDA_MPS_PIPE_DIRECTORY", kNoMpsServer, 1);
  return Driver::Load(choice == "cuda" ? "real" : choice);
}

std::string DescribeDevices(const DeviceList& devices) {
  std::vector<std::pair<std::string, int>> counts;  // in the order of their first device
  for (const std::string& name : devices.names) {
    const auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == counts.end()) {
      counts.emplace_back(name, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} ×{}", text.empty() ? "" : ", ", name, count);
  return text;
}

std::string DescribeVersion(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace tessera
