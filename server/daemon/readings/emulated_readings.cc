#include "server/daemon/readings/emulated_readings.h"

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

// The share of `passed_ns`. A kernel that runs on, and has the device to itself, counts for all of the time.
uint32_t Percent(bool alone, uint64_t before_ns, uint64_t busy_ns, uint64_t passed_ns) {
  if (alone) return 100;
  return busy_ns <= before_ns ? 0 : static_cast<uint32_t>(std::min<uint64_t>(100, (busy_ns - before_ns) * 100 / passed_ns));
}

}  // namespace

// Between requests that are closer than kLoadPeriodNs the former load stands.
void EmulatedReadings::NoteLoad(const MonitorRequest& request) {
  const uint64_t now_ns = MonotonicNs();
  if (since_ns_ != 0 && now_ns - since_ns_ < kLoadPeriodNs) return;
  const bool known = since_ns_ != 0;
  const uint64_t passed_ns = now_ns - since_ns_;
  since_ns_ = now_ns;
  std::array<int, kEmulatedDevicesMax> running{};  // sessions with kernels
  for (const Session& session : request.sessions) {
    for (size_t i = 0; i < running.size(); ++i) running[i] += session.devices[i].running != 0 ? 1 : 0;
  }
  for (size_t i = 0; i < busy_ns_.size(); ++i) {
    const DeviceUse& use = request.devices[i];
    if (known) percent_[i] = static_cast<int>(Percent(use.running != 0, busy_ns_[i], use.busy_ns, passed_ns));
    busy_ns_[i] = use.busy_ns;
  }
  std::map<Part, uint64_t> former;
  former.swap(session_busy_ns_);
  session_percent_.clear();
  for (const Session& session : request.sessions) {
    for (uint32_t i = 0; i < session.devices.size(); ++i) {
      const DeviceUse& use = session.devices[i];
      const Part part{session.worker_pid, i};
      session_busy_ns_[part] = use.busy_ns;
      const auto before = former.find(part);
      const uint64_t before_ns = before == former.end() ? use.busy_ns : before->second;
      if (known) session_percent_[part] = Percent(use.running != 0 && running[i] == 1, before_ns, use.busy_ns, passed_ns);
    }
  }
}

// What a kernel uses is known when it ends, or its slice: no more than 100 % of it then.
ProcessFigures EmulatedReadings::Figures(const MonitorRequest& request, const DeviceSnapshot& snapshot) {
  ProcessFigures figures;
  figures.told = true;
  const uint64_t now_ns = MonotonicNs();
  const uint64_t passed_ns = now_ns - figures_ns_;
  figures_ns_ = now_ns;
  std::map<Part, uint64_t> former;
  former.swap(figures_busy_ns_);
  for (const Session& session : request.sessions) {
    for (uint32_t i = 0; i < snapshot.devices.size(); ++i) {
      const size_t number = snapshot.devices[i].uuid[15];
      if (number >= kEmulatedDevicesMax) continue;
      const Part part{session.worker_pid, i};
      const DeviceUse& use = session.devices[number];
      figures_busy_ns_[part] = use.busy_ns;
      const auto before = former.find(part);
      const bool worked = before != former.end() && use.busy_ns > before->second;
      if (!worked && use.used_bytes == 0) continue;
      const uint32_t percent = worked ? Percent(false, before->second, use.busy_ns, passed_ns) : ProcessFigures::kUnknownPercent;
      figures.list.push_back({session.session, i, percent, use.used_bytes});
    }
  }
  return figures;
}

void EmulatedReadings::Fill(const MonitorRequest& request, const DeviceSnapshot& snapshot, ServerReport* report) {
  NoteLoad(request);
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const DeviceSnapshot::Device& device = snapshot.devices[i];
    // The last byte of an emulated device's UUID is its number (server/emulator/driver/base/options.h).
    const size_t number = device.uuid[15];
    std::vector<ServerReport::Value>& values = report->readings.emplace_back();
    if (number >= kEmulatedDevicesMax) continue;
    for (const Session& session : request.sessions) {
      const uint64_t own = std::min(session.devices[number].used_bytes, device.total_bytes);
      if (own == 0) continue;
      ServerReport::Use* const use = MonitorRequest::AddUse(session, static_cast<uint32_t>(i), own, report);
      const auto percent = session_percent_.find({session.worker_pid, static_cast<uint32_t>(number)});
      if (use == nullptr || request.query.ask != Ask::kDetails || percent == session_percent_.end()) continue;
      use->load.time_us = static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
      use->load.sm_percent = percent->second;
    }
    if (request.query.ask == Ask::kDetails && request.query.device == i) AddEmulatedDetails(device, &values);
    if (request.query.ask != Ask::kState) continue;
    values.push_back({Reading::kMemoryTotalBytes, device.total_bytes});
    values.push_back({Reading::kMemoryUsedBytes, std::min(request.devices[number].used_bytes, device.total_bytes)});
    values.push_back({Reading::kMemoryReservedBytes, 0});
    if (percent_[number] >= 0) values.push_back({Reading::kGpuPercent, static_cast<uint64_t>(percent_[number])});
    values.push_back({Reading::kMinorNumber, number});
    AddEmulatedState(device, &values);
  }
}

}  // namespace tessera
