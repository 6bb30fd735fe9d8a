#include "server/worker/session.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "generated/driver_table.h"
#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/segment.h"
#include "protocol/memory/window_table.h"
#include "server/worker/client_watch.h"
#include "server/worker/driver_places.h"
#include "server/worker/executor.h"
#include "server/worker/high_addresses.h"
#include "server/worker/room_maker.h"

namespace tessera {
namespace {

// Whether nothing of this process is mapped in the range: the driver must be able to reserve in it later.
bool IsFree(const Range& range) {
  if (!ReserveAddressRange(range.base, range.bytes).ok()) return false;
  ReleaseAddressRange(range.base, range.bytes);
  return true;
}

// The first row that the client offers and this process can use: the session's host window is then reserved here, its
// device window free.
Result<int> ChooseWindows(const ClientHello& hello, const SessionOptions& options) {
  for (int row = 0; row < kWindowRows; ++row) {
    if ((hello.window_rows >> row & 1) == 0) continue;
    if (options.client_in_process) return row;
    const WindowPair windows = SessionWindows(row, static_cast<int>(hello.session_index));
    if (options.high_addresses != nullptr) {
      options.high_addresses->Vacate(windows.device);
      options.high_addresses->Vacate(windows.host);
    }
    if (!IsFree(windows.device)) continue;
    if (ReserveAddressRange(windows.host.base, windows.host.bytes).ok()) return row;
  }
  return Status(StatusCode::kResourceExhausted,
                fmt::format("no address window is free on both sides (the client offers rows {:#x}): check the limit of "
                            "address space (ulimit -v) on both sides",
                            hello.window_rows));
}

// A program sees its vGPU's memory as the device's, as long as it runs.
void LimitMemory(const GatePage& page, DeviceSnapshot* snapshot) {
  for (DeviceSnapshot::Device& device : snapshot->devices) {
    for (uint32_t row = 0; row < std::min<uint32_t>(page.row_count, kGateRowsMax); ++row) {
      if (std::memcmp(page.rows[row].uuid, device.uuid_v2, sizeof(device.uuid_v2)) != 0) continue;
      const uint64_t limit = page.rows[row].memory_limit.load(std::memory_order_acquire);
      if (limit != 0) device.total_bytes = std::min(device.total_bytes, limit);
    }
  }
}

Result<std::unique_ptr<Channel>> Open(UniqueFd& socket, const SessionOptions& options, const ClientHello& hello,
                                      ServerWelcome* welcome, const DriverTable** driver) {
  if (hello.session_index >= uint32_t{kSessionsPerWindow}) {
    return Status(StatusCode::kProtocolViolation, fmt::format("session index {} is out of range", hello.session_index));
  }
  std::string selection;
  Result<const DriverTable*> opened = options.open_driver(hello, &selection);
  if (!opened.ok()) return opened.status();
  *driver = *opened;
  Result<DeviceSnapshot> snapshot =
      options.snapshot ? Result<DeviceSnapshot>(*options.snapshot) : BuildSnapshot(**driver, options.priorities);
  if (!snapshot.ok()) return snapshot.status();
  snapshot->selection = selection;
  if (options.gate.gate != nullptr) LimitMemory(*options.gate.gate, &*snapshot);
  // After the driver is loaded: the row must be one that the driver's own mappings left free.
  Result<int> row = ChooseWindows(hello, options);
  if (!row.ok()) return row.status();

  Encoder encoder;
  snapshot->Encode(encoder);
  if (encoder.size() > kSnapshotBytesMax) {
    return Status(StatusCode::kResourceExhausted, "the devices do not fit a welcome: set CUDA_VISIBLE_DEVICES");
  }
  welcome->spec_hash = kSpecHash;
  welcome->session_id = options.session_id;
  welcome->session_index = hello.session_index;
  welcome->window_row = static_cast<uint32_t>(*row);
  welcome->mirrored = hello.mirrored;
  welcome->sizes = hello.sizes;
  welcome->server = fmt::format("tesserad {}", TESSERA_VERSION);
  welcome->snapshot.assign(encoder.bytes().begin(), encoder.bytes().end());
  return Channel::Create(std::move(socket), welcome, MonotonicNs() + options.hello_timeout_ns);
}

Status RoomForSegments(RoomMaker& rooms, uint64_t bytes) {
  if (rooms.HoldHost(bytes)) return Status::Ok();
  return Status(StatusCode::kResourceExhausted,
                fmt::format("the session's host memory would be {} MiB, and programs of this user hold as much as the server "
                            "has room for beside others': free some, or raise --host-memory of tesserad",
                            bytes >> 20));
}

}  // namespace

Status RunSession(UniqueFd socket, const SessionOptions& options, bool* begun) {
  if (begun != nullptr) *begun = false;
  Result<ClientHello> hello = ReceiveHello(socket.get(), kSpecHash, MonotonicNs() + options.hello_timeout_ns);
  if (!hello.ok()) return hello.status();
  ServerWelcome welcome;
  const DriverTable* driver = nullptr;
  Result<std::unique_ptr<Channel>> channel = Open(socket, options, *hello, &welcome, &driver);
  if (!channel.ok()) {
    if (socket.valid()) Refuse(socket.get(), channel.status());
    return channel.status();
  }
  if (begun != nullptr) *begun = true;
  WorkerOptions worker_options;
  worker_options.session_index = welcome.session_index;
  worker_options.windows = SessionWindows(static_cast<int>(welcome.window_row), static_cast<int>(welcome.session_index));
  worker_options.client_in_process = options.client_in_process;
  worker_options.device_output = options.device_output;
  worker_options.shares = options.shares;
  worker_options.images = options.images;
  worker_options.rooms = options.rooms;
  worker_options.warm_contexts = options.warm_contexts;
  worker_options.gate = options.gate;
  channel.value()->SetHostWindow(worker_options.windows.host.base, worker_options.windows.host.bytes);
  if (!options.client_in_process) LeavePlacesToEarlierSessions(*driver, welcome.session_index);
  LogInfo("session {} of {} (pid {}) has begun", options.session_id, hello->program, hello->pid);
  if (options.opened) options.opened(welcome);
  if (options.rooms != nullptr) {
    channel.value()->SetSegmentRoom([rooms = options.rooms](uint64_t bytes) { return RoomForSegments(*rooms, bytes); });
  }
  Status status;
  {
    std::optional<ClientWatch> watch;
    if (options.ended) watch.emplace(**channel, options.ended);
    Worker worker(**channel, *driver, worker_options);
    Executor executor(worker);
    status = executor.Run();
    if (options.ended) options.ended(status);
  }
  return status;
}

}  // namespace tessera
