#include "server/daemon/monitor.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/device_snapshot.h"
#include "server/daemon/child_process.h"
#include "server/daemon/exit_codes.h"
#include "server/driver/nvml.h"

namespace tessera {
namespace {

// Sessions in one request; the daemon has no more by default, and the rest is left out.
constexpr size_t kSessionsMax = 256;
constexpr size_t kRequestBytesMax = kControlMessageBytesMax + kSessionsMax * sizeof(MonitorRequest::Session);
// A load is measured over at least this long.
constexpr uint64_t kLoadPeriodNs = 100'000'000;

using Session = MonitorRequest::Session;

// The share of time in which kernels of the emulated devices ran, from one request to a later one.
class EmulatedLoad {
 public:
  // Between requests that are closer than kLoadPeriodNs the former load stands; at the first one nothing is known.
  void Note(const std::vector<Session>& sessions) {
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
    since_ns_ = now_ns;
  }
  // -1: not known yet.
  int percent(size_t device) const { return percent_[device]; }

 private:
  uint64_t since_ns_ = 0;
  std::array<uint64_t, emulator::kUsageDevicesMax> busy_ns_{};
  std::array<int, emulator::kUsageDevicesMax> percent_ = [] {
    std::array<int, emulator::kUsageDevicesMax> unknown;
    unknown.fill(-1);
    return unknown;
  }();
};

// The devices are emulated: each session has memory of its own, and what all of them use is told as one device's.
void FillEmulated(const std::vector<Session>& sessions, const DeviceSnapshot& snapshot, const EmulatedLoad& load,
                  ServerReport* report) {
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    // The last byte of an emulated device's UUID is its number (server/emulator/driver/options.h).
    const size_t number = snapshot.devices[i].uuid[15];
    std::vector<ServerReport::Value>& values = report->readings.emplace_back();
    if (number >= emulator::kUsageDevicesMax) continue;
    uint64_t used_bytes = 0;
    for (const Session& session : sessions) {
      const uint64_t own = session.devices[number].used_bytes;
      used_bytes += own;
      if (own != 0) report->uses.push_back({session.client_pid, static_cast<uint32_t>(i), own});
    }
    const uint64_t total_bytes = snapshot.devices[i].total_bytes;
    values.push_back({Reading::kMemoryTotalBytes, total_bytes});
    values.push_back({Reading::kMemoryUsedBytes, std::min(used_bytes, total_bytes)});
    values.push_back({Reading::kMemoryReservedBytes, 0});
    if (load.percent(number) >= 0) values.push_back({Reading::kGpuPercent, static_cast<uint64_t>(load.percent(number))});
  }
}

void FillFromNvml(const Nvml& nvml, const std::vector<Session>& sessions, const DeviceSnapshot& snapshot, ServerReport* report) {
  report->driver_release = nvml.DriverRelease();
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const std::string uuid = snapshot.devices[i].UuidText();
    report->readings.push_back(nvml.Read(uuid));
    const std::map<uint32_t, uint64_t> bytes = nvml.ProcessBytes(uuid);
    for (const Session& session : sessions) {
      if (const auto found = bytes.find(session.worker_pid); found != bytes.end()) {
        report->uses.push_back({session.client_pid, static_cast<uint32_t>(i), found->second});
      }
    }
  }
}

void Serve(MonitorRequest request, int connection, EmulatedLoad& load) {
  ServerReport& report = request.report;
  const Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report.snapshot);
  if (!snapshot.ok()) return LogError("the daemon's snapshot cannot be read: {}", snapshot.status().message());
  if (report.driver == "emulator") {
    load.Note(request.sessions);
    FillEmulated(request.sessions, snapshot.value(), load, &report);
  } else {
    // Loaded with the first request; a machine without it stays so.
    static const Result<std::unique_ptr<Nvml>> nvml = Nvml::Load();
    if (nvml.ok()) {
      FillFromNvml(*nvml.value(), request.sessions, snapshot.value(), &report);
    } else {
      report.readings.resize(snapshot.value().devices.size());
    }
  }
  Encoder encoder(kControlMessageBytesMax);
  report.Encode(encoder);
  const Status sent = SendMessage(connection, encoder.bytes(), {}, 0);
  if (!sent.ok()) LogDebug("a query was not answered: {}", sent.message());
}

}  // namespace

void MonitorRequest::Encode(Encoder& out) const {
  Encoder encoded(kControlMessageBytesMax);
  report.Encode(encoded);
  out.Bytes(encoded.bytes());
  const size_t count = std::min(sessions.size(), kSessionsMax);
  out.Pod(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) out.Pod(sessions[i]);
}

Result<MonitorRequest> MonitorRequest::Decode(std::span<const std::byte> message) {
  Decoder in(message);
  MonitorRequest request;
  Result<ServerReport> report = ServerReport::Decode(in.Bytes(kControlMessageBytesMax));
  if (!report.ok()) return report.status();
  request.report = std::move(report).value();
  request.sessions.resize(in.CountOf(kSessionsMax, sizeof(Session)));
  for (Session& session : request.sessions) in.Pod(&session);
  if (!in.AtEnd()) return Status(StatusCode::kProtocolViolation, "a malformed request to the monitor");
  return request;
}

Status Monitor::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return Status::FromErrno("cannot create a socket", errno);
  socket_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  const Result<pid_t> pid = StartSelf(
      {"--monitor-fd", std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid()), "--log", log_word_}, {theirs.get()});
  if (pid.ok()) return Status::Ok();
  socket_.reset();
  return pid.status();
}

Status Monitor::Answer(const MonitorRequest& request, int connection) {
  Encoder encoder(kRequestBytesMax);
  request.Encode(encoder);
  const int fds[] = {connection};
  for (int attempt = 0;; ++attempt) {
    if (!socket_.valid()) RETURN_IF_ERROR(Start());
    const Status sent = SendMessage(socket_.get(), encoder.bytes(), fds, 0);
    if (sent.ok()) return sent;
    if (sent.code() == StatusCode::kTimedOut) {
      return Status(StatusCode::kTimedOut, "the server's devices do not answer questions: look at them with nvidia-smi there");
    }
    // It has ended: a new one, once.
    socket_.reset();
    if (attempt == 1) return sent;
  }
}

int RunMonitor(int socket) {
  EmulatedLoad load;
  for (;;) {
    Result<SocketMessage> message = ReceiveMessage(socket, kRequestBytesMax, kNoDeadline);
    if (!message.ok()) return message.status().code() == StatusCode::kUnavailable ? kExitOk : kExitInternal;
    Result<MonitorRequest> request = MonitorRequest::Decode(message->bytes);
    if (!request.ok() || message->fds.size() != 1) {
      LogError("the daemon sent a malformed request");
      return kExitInternal;
    }
    Serve(std::move(request).value(), message->fds[0].get(), load);
  }
}

}  // namespace tessera
