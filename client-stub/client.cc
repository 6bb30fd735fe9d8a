#include "client-stub/client.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "client-stub/cu_result.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Where the process' one Client is, for handlers that must not construct it.
std::atomic<Client*> the_client{nullptr};

// After all exit handlers, those of a statically linked cudart included.
__attribute__((destructor)) void AtExit() {
  Client* client = the_client.load(std::memory_order_acquire);
  if (client == nullptr || client->forked()) return;
  if (Session* session = client->session()) session->LeaveAtExit();
  if (client->statistics() != nullptr) client->statistics()->Write();
}

}  // namespace

Client& Client::Get() {
  if (Client* client = the_client.load(std::memory_order_acquire)) [[likely]]
    return *client;
  static Client* const client = [] {
    auto* made = new Client;
    the_client.store(made, std::memory_order_release);
    return made;
  }();
  return *client;
}

Client::Client() {
  const Config& config = GetConfig();
  SetLogName("tessera");
  SetLogLevel(config.log_level);
  if (!config.bad_log_level.empty()) {
    LogWarning("TESSERA_LOG={} is no level: use debug, info, warning, error or off", config.bad_log_level);
  }
  if (!config.stats.empty()) statistics_ = std::make_unique<Statistics>(config.stats);
  pthread_atfork(nullptr, nullptr, &Client::AfterForkInChild);
}

// Only this thread exists here, and any lock may be held for ever by one that does not: nothing but flags and
// descriptors.
void Client::AfterForkInChild() {
  Client* client = the_client.load(std::memory_order_relaxed);
  if (client == nullptr) return;
  Session* session = client->session_.exchange(nullptr, std::memory_order_relaxed);
  // A child of a process that never used CUDA may use it itself.
  if (session == nullptr) return;
  client->forked_.store(true, std::memory_order_relaxed);
  client->initialized_.store(false, std::memory_order_relaxed);
  session->AbandonInChild();
}

CUresult Client::Initialize(unsigned flags) {
  if (forked()) return CUDA_ERROR_NOT_INITIALIZED;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (initialized()) return CUDA_SUCCESS;
  MutexLock lock(connect_mutex_);
  const CUresult result = Connect();
  if (result == CUDA_SUCCESS) initialized_.store(true, std::memory_order_release);
  return result;
}

CUresult Client::Connect() {
  if (session() != nullptr) return CUDA_SUCCESS;
  Status status;
  const Config& config = GetConfig();
  if (config.visible_devices.starts_with('-')) {
    // The usual way to keep a program off the GPU: nothing to complain about, and no server to ask.
    LogInfo("CUDA_VISIBLE_DEVICES selects no device");
    return CUDA_ERROR_NO_DEVICE;
  }
  if (config.server.empty()) {
    status = Status(StatusCode::kInvalidArgument,
                    "TESSERA_SERVER is not set, so there is no GPU: set it to unix:PATH with the path that tesserad "
                    "prints, or start the program with `tessera run`");
  } else if (ServerAddress address = ParseServerAddress(config.server); !address.error.empty()) {
    status = Status(StatusCode::kInvalidArgument, std::move(address.error));
  } else {
    try {
      Result<std::unique_ptr<Session>> session = Session::Connect(address.unix_path);
      if (session.ok()) {
        // Never destroyed: see the class comment.
        session_.store(session->release(), std::memory_order_release);
        return CUDA_SUCCESS;
      }
      status = session.status();
    } catch (const std::exception& error) {
      status = Status(StatusCode::kInternal,
                      std::string("the session with the CUDA server could not be set up: ") + error.what());
    }
  }
  if (last_complaint_ != status.message()) {
    last_complaint_ = status.message();
    LogError("{}", status.message());
  }
  return ToCuResult(status);
}

int Client::DriverVersion() {
  if (const int known = driver_version_.load(std::memory_order_acquire)) return known;
  MutexLock lock(connect_mutex_);
  if (const int known = driver_version_.load(std::memory_order_acquire)) return known;
  int version = CUDA_VERSION;
  if (!forked() && Connect() == CUDA_SUCCESS) version = session()->devices().driver_version();
  driver_version_.store(version, std::memory_order_release);
  return version;
}

void Client::UseSessionForTest(Session* session) {
  session_.store(session, std::memory_order_release);
  initialized_.store(session != nullptr, std::memory_order_release);
  driver_version_.store(0, std::memory_order_release);
}

}  // namespace tessera
