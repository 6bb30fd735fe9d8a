#include "server/daemon/emulated_readings.h"

#include <algorithm>
#include <chrono>

#include "protocol/base/clock.h"
#include "server/driver/emulated_device.h"

namespace tessera {
namespace {

using Ask = ServerQuery::Ask;
using Session = MonitorRequest::Session;

// A load is measured over at least this long.
constexpr uint64_t kLoadPeriodNs = 100'000'000;

}  // namespace

// Between requests that are closer than kLoadPeriodNs the former load stands.
void EmulatedReadings::NoteLoad(const std::vector<Session>& sessions) {
  const uint64_t now_ns = MonotonicNs();
  if (since_ns_ != 0 && now_ns - since_ns_ < kLoadPeriodNs) return;
  for (size_t i = 0; i < busy_ns_.size(); ++i) {
    uint64_t busy_ns = 0;
    bool running = false;
    for (const Session& session : sessions) {
      busy_ns += session.devices[i].busy_ns;
      running = running || session.devices[i].running != 0;
    }
    const uint64_t passed_ns = now_ns - since_ns_;
    // The time of sessions that have ended is gone; a kernel that runs on counts for all of the time.
    const uint64_t ran_ns = running ? passed_ns : busy_ns > busy_ns_[i] ? busy_ns - busy_ns_[i] : 0;
    if (since_ns_ != 0) percent_[i] = static_cast<int>(std::min<uint64_t>(100, ran_ns * 100 / passed_ns));
    busy_ns_[i] = busy_ns;
  }
  std::map<Part, uint64_t> former;
  former.swap(session_busy_ns_);
  session_percent_.clear();
  for (const Session& session : sessions) {
    for (uint32_t i = 0; i < session.devices.size(); ++i) {
      const Part part{session.worker_pid, i};
      const uint64_t busy_ns = session_busy_ns_[part] = session.devices[i].busy_ns;
      const auto before = former.find(part);
      const uint64_t ran_ns = session.devices[i].running != 0 ? now_ns - since_ns_
                              : before != former.end()        ? busy_ns - before->second
                                                              : 0;
      if (since_ns_ != 0)
        session_percent_[part] = static_cast<uint32_t>(std::min<uint64_t>(100, ran_ns * 100 / (now_ns - since_ns_)));
    }
  }
  since_ns_ = now_ns;
}

// Each session has memory of its own; what all of them use is told as one device's.
void EmulatedReadings::Fill(const MonitorRequest& request, const DeviceSnapshot& snapshot, ServerReport* report) {
  NoteLoad(request.sessions);
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const DeviceSnapshot::Device& device = snapshot.devices[i];
    // The last byte of an emulated device's UUID is its number (server/emulator/driver/base/options.h).
    const size_t number = device.uuid[15];
    std::vector<ServerReport::Value>& values = report->readings.emplace_back();
    if (number >= kUsageDevicesMax) continue;
    uint64_t used_bytes = 0;
    for (const Session& session : request.sessions) {
      const uint64_t own = session.devices[number].used_bytes;
      used_bytes += own;
      if (own == 0) continue;
      ServerReport::Use& use =
          report->uses.emplace_back(ServerReport::Use{session.client_pid, static_cast<uint32_t>(i), own, {}});
      const auto percent = session_percent_.find({session.worker_pid, static_cast<uint32_t>(number)});
      if (request.query.ask != Ask::kDetails || percent == session_percent_.end()) continue;
      use.load.time_us = static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
      use.load.sm_percent = percent->second;
    }
    if (request.query.ask == Ask::kDetails && request.query.device == i) AddEmulatedDetails(device, &values);
    if (request.query.ask != Ask::kState) continue;
    values.push_back({Reading::kMemoryTotalBytes, device.total_bytes});
    values.push_back({Reading::kMemoryUsedBytes, std::min(used_bytes, device.total_bytes)});
    values.push_back({Reading::kMemoryReservedBytes, 0});
    if (percent_[number] >= 0) values.push_back({Reading::kGpuPercent, static_cast<uint64_t>(percent_[number])});
    values.push_back({Reading::kMinorNumber, number});
    AddEmulatedState(device, &values);
  }
}

}  // namespace tessera
