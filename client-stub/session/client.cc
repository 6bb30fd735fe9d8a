#include "client-stub/session/client.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

#include "client-stub/process/cu_result.h"
#include "client-stub/process/own_agent.h"
#include "client-stub/session/server_inquiry.h"
#include "client-stub/session/server_plan.h"
#include "client-stub/session/session_flags.h"
#include "client-stub/session/thread_state.h"
#include "generated/messages/service.h"
#include "protocol/base/check.h"
#include "protocol/base/log.h"
#include "protocol/base/visible_devices.h"

namespace tessera {

namespace {

void TellThreadEnded(ThreadState& state) {
  Client& client = Client::Get();
  if (client.forked()) return;
  tesseraThreadEndedRequest request;
  request.thread = state.number;
  Encoder& out = state.encoder;
  out.Clear();
  if (std::byte* header = out.Append(sizeof(RecordHeader))) std::memset(header, 0, sizeof(RecordHeader));
  request.Encode(out);
  out.AlignTo(kRecordAlignment);
  if (!out.ok()) return;
  RecordHeader header{};
  header.call = tesseraThreadEndedRequest::kId;
  header.thread = state.number;
  std::memcpy(out.mutable_bytes().data(), &header, sizeof(header));
  for (Session* session : client.sessions()) {
    session->deferred_errors().ForgetThread(state.number);
    if (!session->gone()) session->Append(out.mutable_bytes());
  }
}

// Whether the servers are there and CUDA_VISIBLE_DEVICES names a device of theirs twice.
bool RepeatsDevice(const Config& config) {
  ServerList list = ParseServerList(config.server, config.server_names, config.vgpus, config.tickets);
  if (!list.error.empty() || !ReachOtherHosts(&list).ok()) return false;
  const Result<std::vector<AskedServer>> servers = AskServers(list);
  return servers.ok() && PlanSessions(servers.value(), config.visible_devices).repeats_device;
}

}  // namespace

Client::Client(const Config& config, Statistics* statistics, void (*attach)(Session&), void (*at_exit)())
    : attach_(attach), at_exit_(at_exit), statistics_(statistics) {
  SetLogName("tessera");
  SetLogLevel(config.log_level);
  if (!config.bad_log_level.empty()) {
    LogWarning("TESSERA_LOG={} is no level: use debug, info, warning, error or off", config.bad_log_level);
  }
  if (!config.trace.empty()) trace_ = std::make_unique<Trace>(ProcessFile(config.trace, config.run_begun_ns));
  plain_ = statistics_ == nullptr && trace_ == nullptr && !config.launch_blocking;
  ThreadEnds::Process().OnEnd(&TellThreadEnded);
  pthread_atfork(nullptr, nullptr, &Client::AfterForkInChild);
}

// Only this thread exists here, and any lock may be held for ever by one that does not: nothing but flags and
// descriptors.
void Client::AfterForkInChild() {
  Client* const client = IfMade();
  if (client == nullptr) return;
  // A child of a process that never used CUDA may use it itself.
  if (client->session_.exchange(nullptr, std::memory_order_relaxed) == nullptr) return;
  client->forked_.store(true, std::memory_order_relaxed);
  client->initialized_.store(false, std::memory_order_relaxed);
  for (Session* session : client->sessions()) session->AbandonInChild();
  client->session_count_.store(0, std::memory_order_relaxed);
}

CUresult Client::Initialize(unsigned flags) {
  if (forked() || calls_ended()) return NotInitialized();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (initialized()) return CUDA_SUCCESS;
  MutexLock lock(connect_mutex_);
  const CUresult result = Connect();
  if (result != CUDA_SUCCESS || initialized()) return result;
  if (calls_ended()) return NotInitialized();  // meanwhile
  initialized_.store(true, std::memory_order_release);
  std::atexit(at_exit_);
  return result;
}

CUresult Client::NotInitialized() const {
  if (forked() || !calls_ended()) return CUDA_ERROR_NOT_INITIALIZED;
  ThreadEnds::Process().Told(ThreadState::Current());
  return CUDA_ERROR_DEINITIALIZED;
}

void Client::EndCalls() {
  calls_ended_.store(true, std::memory_order_seq_cst);
  initialized_.store(false, std::memory_order_release);
}

CUresult Client::Connect() {
  if (session() != nullptr) return CUDA_SUCCESS;
  Status status;
  const Config& config = GetConfig();
  if (!config.visible_devices.empty() && WantsNoDevice(config.visible_devices)) {
    // The usual way to keep a program off the GPU: nothing to complain about, and no server to ask.
    LogInfo("CUDA_VISIBLE_DEVICES selects no device");
    return CUDA_ERROR_NO_DEVICE;
  }
  if (config.server.empty()) {
    status = Status(StatusCode::kInvalidArgument,
                    "TESSERA_SERVER is not set, so there is no GPU: set it to unix:PATH with the path that tesserad "
                    "prints, or start the program with `tessera run`");
  } else {
    try {
      std::vector<std::unique_ptr<Session>> made;
      status = ConnectAll(&made);
      // No device is left: of a list that is invalid the driver says something else.
      const bool none = status.ok() ? made.empty() : status.code() == StatusCode::kNotFound;
      if (none && !config.visible_devices.empty() && RepeatsDevice(config)) {
        LogInfo("CUDA_VISIBLE_DEVICES={} names a device twice", config.visible_devices);
        return CUDA_ERROR_INVALID_DEVICE;
      }
      if (status.ok() && made.empty()) {
        LogInfo("CUDA_VISIBLE_DEVICES={} selects no device", config.visible_devices);
        return CUDA_ERROR_NO_DEVICE;
      }
      if (status.ok()) {
        std::vector<Session*> sessions;
        for (auto& session : made) sessions.push_back(session.release());  // never destroyed, as the process object
        Publish(sessions);
        return CUDA_SUCCESS;
      }
    } catch (const std::exception& error) {
      status =
          Status(StatusCode::kInternal, std::string("the session with the CUDA server could not be set up: ") + error.what());
    }
  }
  if (last_complaint_ != status.message()) {
    last_complaint_ = status.message();
    LogError("{}", status.message());
  }
  return ToCuResult(status);
}

Status Client::ConnectAll(std::vector<std::unique_ptr<Session>>* sessions) {
  const Config& config = GetConfig();
  ServerList list = ParseServerList(config.server, config.server_names, config.vgpus, config.tickets);
  if (!list.error.empty()) return Status(StatusCode::kInvalidArgument, list.error);
  RETURN_IF_ERROR(ReachOtherHosts(&list));
  if (list.servers.size() == 1) {
    SessionPlace place;
    place.devices = config.visible_devices;
    place.vgpus = list.servers[0].vgpus;
    place.ticket_file = list.servers[0].ticket_file;
    Result<std::unique_ptr<Session>> session = Session::Connect(list.servers[0].unix_path, place);
    if (!session.ok()) return session.status();
    sessions->push_back(std::move(*session));
    return Status::Ok();
  }
  // All are asked first: which devices are wanted of one depends on how many the others have.
  Result<std::vector<AskedServer>> servers = AskServers(list);
  if (!servers.ok()) return servers.status();
  for (PlannedSession& planned : PlanSessions(*servers, config.visible_devices).sessions) {
    planned.place.vgpus = list.servers[planned.server].vgpus;
    planned.place.ticket_file = list.servers[planned.server].ticket_file;
    Result<std::unique_ptr<Session>> session = Session::Connect(list.servers[planned.server].unix_path, planned.place);
    if (!session.ok()) {
      return Status(session.status().code(), "the server " + planned.place.server + ": " + session.status().message());
    }
    sessions->push_back(std::move(*session));
  }
  return Status::Ok();
}

void Client::Publish(std::span<Session* const> sessions) {
  CHECK(sessions.size() <= std::size(sessions_));
  for (Session* session : sessions) {
    if (!session->attached()) attach_(*session);
  }
  SessionFlags::Process().several.store(sessions.size() > 1, std::memory_order_relaxed);
  std::copy(sessions.begin(), sessions.end(), sessions_);
  session_count_.store(static_cast<int>(sessions.size()), std::memory_order_release);
  session_.store(sessions.empty() ? nullptr : sessions.front(), std::memory_order_release);
}

Session* Client::SessionOfDevice(CUdevice device) const {
  for (Session* session : sessions()) {
    if (session->devices().Valid(device)) return session;
  }
  return nullptr;
}

Context* Client::FindContext(CUcontext context) const {
  Session* session = SessionOf(HandleId(reinterpret_cast<uint64_t>(context)));
  return session == nullptr ? nullptr : session->contexts().Find(context);
}

int Client::device_count() const {
  int count = 0;
  for (const Session* session : sessions()) count += session->devices().count();
  return count;
}

int Client::DriverVersion() {
  if (const int known = driver_version_.load(std::memory_order_acquire)) return known;
  MutexLock lock(connect_mutex_);
  if (const int known = driver_version_.load(std::memory_order_acquire)) return known;
  int version = CUDA_VERSION;
  if (!forked() && Connect() == CUDA_SUCCESS) {
    for (const Session* session : sessions()) version = std::min(version, session->devices().driver_version());
  }
  driver_version_.store(version, std::memory_order_release);
  return version;
}

void Client::UseSessionForTest(Session* session) { UseSessionsForTest(std::span(&session, session == nullptr ? 0 : 1)); }

void Client::UseSessionsForTest(std::span<Session* const> sessions) {
  Publish(sessions);
  initialized_.store(!sessions.empty(), std::memory_order_release);
  driver_version_.store(0, std::memory_order_release);
}

}  // namespace tessera
