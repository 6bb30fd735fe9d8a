#include "server/daemon/worker_process.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/segment.h"
#include "server/daemon/children/client_environment.h"
#include "server/daemon/children/exit_codes.h"
#include "server/daemon/children/worker_line.h"
#include "server/daemon/device_probe.h"
#include "server/daemon/worker_sandbox.h"
#include "server/images/image_socket.h"
#include "server/shares/share_socket.h"
#include "server/worker/device_output.h"
#include "server/worker/gate/gate_rows.h"
#include "server/worker/high_addresses.h"
#include "server/worker/session.h"

namespace tessera {
namespace {

std::vector<std::string> UuidsOf(const std::vector<StreamPriorities>& devices) {
  std::vector<std::string> uuids;
  for (const StreamPriorities& known : devices) {
    DeviceSnapshot::Device device;
    std::copy(known.uuid.begin(), known.uuid.end(), device.uuid);
    uuids.push_back(device.UuidText());
  }
  return uuids;
}

// Loads the driver for a client like `hello`. Nothing else in the process runs yet.
Result<const DriverTable*> OpenDriver(const Options& options, const ClientHello& hello, HighAddresses* high_addresses) {
  for (const auto& [name, value] : AllowedVariables(hello.environment)) setenv(name.c_str(), value.c_str(), 1);
  // The emulated driver keeps apart what several servers give to one client process.
  setenv("TESSERA_EMULATOR_SESSION", std::to_string(hello.session_index).c_str(), 1);
  // A session's GPUs, if it may not have all of the machine's, are named by UUID: the client may have set CUDA_DEVICE_ORDER, and
  // numbers counted in the daemon's order. Of all, the driver itself applies the client's list.
  const std::vector<std::string> own =
      DevicesOfSession(options.gpus, getenv("CUDA_VISIBLE_DEVICES"), UuidsOf(ParsePriorities(options.priorities)));
  const std::string devices = own.empty() ? hello.devices : SelectAmong(own, hello.devices);
  if (!devices.empty()) setenv("CUDA_VISIBLE_DEVICES", devices.c_str(), 1);
  high_addresses->Occupy();
  Result<std::unique_ptr<Driver>> driver = LoadChosenDriver(options.driver);
  if (!driver.ok()) return driver.status();
  RETURN_IF_ERROR(EnterWorkerSandbox(options, *driver.value()));
  if (const Result<int> count = driver.value()->CountDevices(); !count.ok()) return count.status();
  return &driver->release()->table();  // a loaded driver stays until the process ends
}

// The worker's side of what it shares with the broker; empty where there is none.
class GateMappings {
 public:
  static Result<GateMappings> Map(const Options& options) {
    GateMappings mappings;
    if (options.gate_fd < 0 || options.report_fd < 0) return mappings;
    const UniqueFd gate(options.gate_fd);
    const UniqueFd report(options.report_fd);
    Result<Mapping> gate_page = Mapping::MapToRead(gate.get(), kPageBytes);
    if (!gate_page.ok()) return gate_page.status();
    Result<Mapping> report_page = Mapping::Map(report.get(), kReportFileBytes, 0, MapPlacement::Anywhere());
    if (!report_page.ok()) return report_page.status();
    mappings.gate_ = std::move(*gate_page);
    mappings.report_ = std::move(*report_page);
    mappings.event_fd_ = options.event_fd;
    return mappings;
  }
  GatePages pages() const {
    return {reinterpret_cast<const GatePage*>(gate_.data()), reinterpret_cast<ReportPage*>(report_.data()), event_fd_};
  }

 private:
  Mapping gate_;
  Mapping report_;
  int event_fd_ = -1;
};

// What a client of this driver begins with, made while none is there yet: the snapshot, and the primary context of the first
// device, on which programs start unless they say otherwise. Tells the daemon of it.
void PrepareSession(const DriverTable& driver, int line, SessionOptions* session) {
  if (Result<DeviceSnapshot> snapshot = BuildSnapshot(driver, session->priorities); snapshot.ok()) {
    session->snapshot = std::move(snapshot).value();
  }
  CUdevice device = 0;
  int mode = CU_COMPUTEMODE_PROHIBITED;
  if (driver.cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      driver.cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) != CUDA_SUCCESS ||
      // A device that takes one process at a time is not held for a client that may never come.
      mode != CU_COMPUTEMODE_DEFAULT) {
    return SayReady(line, 0, GpuUuid{});
  }
  const GpuUuid gpu = GpuUuidOf(driver, device);
  SayMakesContext(line, gpu);
  CUcontext context = nullptr;
  if (driver.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return SayReady(line, 0, GpuUuid{});
  session->warm_contexts[device] = context;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
    if (driver.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
    driver.cuCtxPopCurrent_v2(&context);
  }
  SayReady(line, free_bytes, gpu);
}

}  // namespace

int RunWorkerProcess(const Options& options) {
  Result<std::unique_ptr<DeviceOutput>> output = DeviceOutput::Capture();
  if (!output.ok()) {
    LogError("session {} failed: {}", options.session, output.status().message());
    return kServiceInternal;
  }
  SessionOptions session;
  session.session_id = options.session;
  session.hello_timeout_ns = options.hello_timeout_ns();
  session.priorities = ParsePriorities(options.priorities);
  session.device_output = output->get();
  SocketShareBroker shares{UniqueFd(options.shares_fd)};
  if (options.shares_fd >= 0) session.shares = &shares;
  SocketImageCache images{UniqueFd(options.images_fd)};
  if (options.images_fd >= 0) session.images = &images;
  if (options.device_page_fd >= 0) {
    setenv("TESSERA_EMULATOR_PAGE_FD", std::to_string(options.device_page_fd).c_str(), 1);
    setenv("TESSERA_EMULATOR_PAGE_SLOT", std::to_string(options.device_slot).c_str(), 1);
  }
  Result<GateMappings> gate = GateMappings::Map(options);
  if (!gate.ok()) {
    LogError("session {} failed: {}", options.session, gate.status().message());
    return kServiceInternal;
  }
  session.gate = gate->pages();
  const UniqueFd line(options.worker_fd);
  LineRoomMaker rooms(line.get());
  session.rooms = &rooms;
  HighAddresses high_addresses;
  session.high_addresses = &high_addresses;
  const auto end = [&](const Status& why) {
    // The daemon knows that what this session holds is about to be free, while the kernel still takes it apart.
    CloseLine(line.get());
    if (why.ok()) _exit(kServiceOk);
    if (Channel::IsPeerGone(why)) {
      LogInfo("session {}: its program ended without closing it: {}", options.session, why.message());
      _exit(kExitClientGone);
    }
    LogWarning("session {} failed: {}", options.session, why.message());
    _exit(kExitSessionFailed);
  };
  session.ended = end;
  session.opened = [&line](const ServerWelcome& welcome) { SayBegun(line.get()); };
  Result<ClientHello> wish = ReceiveWish(line.get());
  if (!wish.ok()) return wish.status().code() == StatusCode::kUnavailable ? kServiceOk : kServiceInternal;
  Result<const DriverTable*> driver = OpenDriver(options, *wish, &high_addresses);
  if (!driver.ok()) {
    CloseLine(line.get());
  } else if (!ClientWaits(line.get())) {
    PrepareSession(**driver, line.get(), &session);
  }
  session.open_driver = [&](const ClientHello& hello, std::string* selection) -> Result<const DriverTable*> {
    *selection = wish->devices;
    return driver;
  };
  Result<UniqueFd> client = ReceiveClient(line.get());
  if (!client.ok()) {
    // The daemon has no use for this process any more, or no client has.
    if (!driver.ok()) LogInfo("no worker in advance: {}", driver.status().message());
    _exit(kServiceOk);
  }
  const Status why = RunSession(std::move(client).value(), session);
  LogWarning("session {} did not begin: {}", options.session, why.message());
  // Without destructors as above: a driver that was loaded has threads of its own.
  _exit(kExitHandshakeFailed);
}

}  // namespace tessera
