// One session from its first byte to its last: handshake, driver, address windows, worker.
//
//   Status why = RunSession(std::move(socket), {.open_driver = ...});
//
// Used by the worker process (server/daemon/worker_process.cc) and by tests that have both ends in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/handshake.h"
#include "server/worker/snapshot_builder.h"
#include "server/worker/worker.h"

namespace tessera {

class HighAddresses;  // high_addresses.h

struct SessionOptions {
  uint64_t session_id = 1;  // for logs on both sides
  // How long a client may take for its hello, and how long to fetch the welcome. A client says hello right after connecting; only
  // one that is stopped or foreign takes longer.
  uint64_t hello_timeout_ns = 10'000'000'000;
  // Gives the driver's functions, cuInit done. Called once, after the hello; what the hello asks of the process's environment
  // must have been in force when the driver was loaded. `*selection` becomes the list of devices that was applied.
  std::function<Result<const DriverTable*>(const ClientHello& hello, std::string* selection)> open_driver;
  std::vector<StreamPriorities> priorities;     // known beforehand; others are asked for
  std::optional<DeviceSnapshot> snapshot;       // of this driver; else it is asked for
  std::map<CUdevice, CUcontext> warm_contexts;  // as WorkerOptions
  DeviceOutput* device_output = nullptr;        // as WorkerOptions
  ShareBroker* shares = nullptr;                // likewise
  ImageCache* images = nullptr;                 // likewise
  RoomMaker* rooms = nullptr;                   // likewise
  GatePages gate;                               // likewise
  HighAddresses* high_addresses = nullptr;      // what was taken before the driver was loaded; null: nothing
  // Tests: the client lives in this process and has reserved the address windows already.
  bool client_in_process = false;
  // Called once the client is served, with what was agreed.
  std::function<void(const ServerWelcome& welcome)> opened;
  // Called when the session is over, before anything is torn down: a process that has no other session ends here, since
  // the teardown waits for calls that are inside the driver. On another thread, while such a call goes on, 2 s after the client's
  // end: then it does not return (client_watch.h).
  std::function<void(const Status& why)> ended;
};

// Serves the client at `socket` on the calling thread until the session ends. `begun` (may be null) tells whether the
// handshake was completed. Errors are as Executor::Run(); before the handshake's end also kTimedOut, kVersionMismatch,
// kProtocolViolation, and whatever open_driver returned, which the client was told.
Status RunSession(UniqueFd socket, const SessionOptions& options, bool* begun = nullptr);

}  // namespace tessera
