// What the monitor tells of emulated devices and their use (server/device_page.h). An emulated device has no power, temperature,
// clocks or versions, so none are told. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/server_query.h"
#include "server/daemon/readings/monitor_request.h"
#include "server/daemon/readings/process_figures.h"

namespace tessera {

class EmulatedReadings {
 public:
  // Adds readings and uses to the report. A load is known from the second call on, 0.1 s after the first.
  void Fill(const MonitorRequest& request, const DeviceSnapshot& snapshot, ServerReport* report);

  // For each session and device, the share of the time since the last call in which its kernels had the device (the first call
  // does not know it), and the memory that its worker uses.
  ProcessFigures Figures(const MonitorRequest& request, const DeviceSnapshot& snapshot);

 private:
  void NoteLoad(const MonitorRequest& request);

  // The share of time in which kernels ran, from one request to a later one; -1: not known yet.
  uint64_t since_ns_ = 0;
  std::array<uint64_t, kEmulatedDevicesMax> busy_ns_{};
  std::array<int, kEmulatedDevicesMax> percent_ = [] {
    std::array<int, kEmulatedDevicesMax> unknown;
    unknown.fill(-1);
    return unknown;
  }();
  using Part = std::pair<uint32_t, uint32_t>;  // a worker's process id, and the number of a device
  std::map<Part, uint64_t> session_busy_ns_;
  std::map<Part, uint32_t> session_percent_;
  // Of Figures().
  uint64_t figures_ns_ = 0;
  std::map<Part, uint64_t> figures_busy_ns_;
};

}  // namespace tessera
