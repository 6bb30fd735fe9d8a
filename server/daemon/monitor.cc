#include "server/daemon/monitor.h"

#include <limits.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/holder.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/exit_codes.h"
#include "server/daemon/readings/emulated_readings.h"
#include "server/daemon/readings/process_figures.h"
#include "server/driver/nvml.h"

namespace tessera {
namespace {

static_assert(ProcessFigures::kUnknownBytes == ServerReport::Use::kUnknown);
constexpr size_t kRequestBytesMax =
    2 * kControlMessageBytesMax + MonitorRequest::kSessionsMax * sizeof(MonitorRequest::Session) + sizeof(DeviceUses);

using Ask = ServerQuery::Ask;
using Session = MonitorRequest::Session;
using Loads = std::map<uint32_t, ServerReport::Load>;

// One answer per link, in their order.
std::vector<ServerReport::FieldValue> LinkStates(const Nvml& nvml, const std::string& uuid) {
  std::vector<ServerQuery::Field> fields;
  for (uint32_t link = 0; link < kLinksMax; ++link) fields.push_back({kLinkStateField, link});
  return nvml.ReadFields(uuid, fields);
}

void FillFromNvml(const Nvml& nvml, const MonitorRequest& request, const DeviceSnapshot& snapshot, ServerReport* report) {
  const ServerQuery& query = request.query;
  report->driver_release = nvml.DriverRelease();
  report->readings.resize(snapshot.devices.size());
  std::vector<std::string> uuids;
  for (const DeviceSnapshot::Device& device : snapshot.devices) uuids.push_back(device.UuidText());
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    if (query.ask != Ask::kState && query.device != i) continue;
    const std::string& uuid = uuids[i];
    if (query.ask == Ask::kFields) {
      report->fields = nvml.ReadFields(uuid, query.fields);
      continue;
    }
    Nvml::Readings readings = nvml.Read(uuid, query.ask);
    report->readings[i] = std::move(readings.values);
    report->texts = std::move(readings.texts);
    if (query.ask == Ask::kLinks) {
      report->fields = LinkStates(nvml, uuid);
      for (const ServerReport::Value& value : nvml.ReadPeers(uuid, uuids)) report->readings[i].push_back(value);
    }
    if (query.ask != Ask::kState && query.ask != Ask::kDetails) continue;
    const std::map<uint32_t, uint64_t> bytes = nvml.ProcessBytes(uuid);
    const auto loads = query.ask == Ask::kDetails ? nvml.ProcessLoads(uuid, 0).value_or(Loads()) : Loads();
    for (const Session& session : request.sessions) {
      const auto found = bytes.find(session.worker_pid);
      if (found == bytes.end()) continue;
      const auto load = loads.find(session.worker_pid);
      ServerReport::Use* const use = MonitorRequest::AddUse(session, static_cast<uint32_t>(i), found->second, report);
      if (use != nullptr && load != loads.end()) use->load = load->second;
    }
  }
}

// Whom it asks.
class Sources {
 public:
  // Loaded with the first request; null on a machine without it, which stays so.
  const Nvml* nvml() {
    if (!nvml_) nvml_.emplace(Nvml::Load());
    return nvml_->ok() ? nvml_->value().get() : nullptr;
  }
  // What NVML has sampled since the last call, and what memory processes use now.
  ProcessFigures FiguresFromNvml(const MonitorRequest& request, const DeviceSnapshot& snapshot);

  EmulatedReadings emulated;

 private:
  std::optional<Result<std::unique_ptr<Nvml>>> nvml_;
  std::map<uint32_t, uint64_t> sampled_us_;  // by device
};

ProcessFigures Sources::FiguresFromNvml(const MonitorRequest& request, const DeviceSnapshot& snapshot) {
  ProcessFigures figures;
  figures.told = nvml() != nullptr;
  for (uint32_t i = 0; i < snapshot.devices.size() && nvml() != nullptr; ++i) {
    const std::string uuid = snapshot.devices[i].UuidText();
    uint64_t& since_us = sampled_us_[i];
    const std::optional<Loads> told = nvml()->ProcessLoads(uuid, since_us);
    figures.told = figures.told && told.has_value();
    const Loads loads = told.value_or(Loads());
    const std::map<uint32_t, uint64_t> bytes = nvml()->ProcessBytes(uuid);
    for (const auto& [pid, load] : loads) since_us = std::max(since_us, load.time_us);
    for (const Session& session : request.sessions) {
      const auto load = loads.find(session.worker_pid);
      const auto used = bytes.find(session.worker_pid);
      if (load == loads.end() && used == bytes.end()) continue;
      ProcessFigures::One& one = figures.list.emplace_back();
      one.session = session.session;
      one.device = i;
      one.sm_percent = load == loads.end() ? ProcessFigures::kUnknownPercent : load->second.sm_percent;
      if (used != bytes.end()) one.used_bytes = used->second;
    }
  }
  return figures;
}

void ServeFigures(const MonitorRequest& request, int connection, Sources& sources) {
  Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(request.report.snapshot);
  if (!snapshot.ok()) return LogError("the daemon's snapshot cannot be read: {}", snapshot.status().message());
  const bool is_emulated = request.report.driver == "emulator";
  Encoder encoder(ProcessFigures::kBytesMax);
  (is_emulated ? sources.emulated.Figures(request, *snapshot) : sources.FiguresFromNvml(request, *snapshot)).Encode(encoder);
  const Status sent = SendMessage(connection, encoder.bytes(), {}, 0);
  if (!sent.ok()) LogDebug("the daemon was not told figures: {}", sent.message());
}

// What users of this host are called here; asked by this process, since nothing may hold up the daemon.
void NameSessions(ServerReport* report) {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof(host) - 1);
  std::map<uint32_t, std::string> names;
  for (ServerReport::Session& session : report->session_list) {
    const std::optional<uint32_t> uid = UserOf(session.name);
    if (!uid) continue;
    session.host = host;
    const auto [name, is_new] = names.try_emplace(*uid);
    if (is_new) {
      const passwd* user = getpwuid(*uid);
      name->second = user != nullptr ? std::string(user->pw_name).substr(0, kUserBytesMax) : std::to_string(*uid);
    }
    session.user = name->second;
  }
}

void Serve(MonitorRequest request, int connection, Sources& sources) {
  ServerReport& report = request.report;
  const Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report.snapshot);
  if (!snapshot.ok()) return LogError("the daemon's snapshot cannot be read: {}", snapshot.status().message());
  if (report.driver == "emulator") {
    sources.emulated.Fill(request, snapshot.value(), &report);
  } else if (const Nvml* nvml = sources.nvml()) {
    FillFromNvml(*nvml, request, snapshot.value(), &report);
  } else {
    report.readings.resize(snapshot.value().devices.size());
  }
  request.OverlayMemory(&report);
  NameSessions(&report);
  Encoder encoder(kControlMessageBytesMax);
  report.Encode(encoder);
  const Status sent = SendMessage(connection, encoder.bytes(), {}, 0);
  if (!sent.ok()) LogDebug("a query was not answered: {}", sent.message());
}

}  // namespace

Status Monitor::Start() {
  Result<std::pair<UniqueFd, UniqueFd>> line = MakeSocketPair();
  if (!line.ok()) return line.status();
  socket_ = std::move(line->first);
  const Result<pid_t> pid =
      StartSelf(logs_, kMonitorLogName,
                {"--monitor-fd", std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid()), "--log", log_word_},
                {line->second.get()});
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
  Sources sources;
  for (;;) {
    Result<SocketMessage> message = ReceiveMessage(socket, kRequestBytesMax, kNoDeadline);
    if (!message.ok()) return message.status().code() == StatusCode::kUnavailable ? kServiceOk : kServiceInternal;
    Result<MonitorRequest> request = MonitorRequest::Decode(message->bytes);
    if (!request.ok() || message->fds.size() != 1) {
      LogError("the daemon sent a malformed request");
      return kServiceInternal;
    }
    if (request->figures) {
      ServeFigures(*request, message->fds[0].get(), sources);
    } else {
      Serve(std::move(request).value(), message->fds[0].get(), sources);
    }
  }
}

}  // namespace tessera
