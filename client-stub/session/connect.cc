// How a session begins: hello, welcome, address windows, devices.

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "client-stub/process/address_windows.h"
#include "client-stub/process/config.h"
#include "client-stub/process/ticket_file.h"
#include "client-stub/session/session.h"
#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/server_user.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

// How long a server may take for its welcome: it starts a driver (seconds), and has a session wait for its turn before
// (--start-wait of tesserad, 60 s at most).
constexpr uint64_t kWelcomeTimeoutNs = 90'000'000'000;

ClientHello MakeHello(uint64_t window_rows, const SessionPlace& place) {
  const Config& config = GetConfig();
  ClientHello hello;
  hello.spec_hash = kSpecHash;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.session_index = place.index;
  hello.window_rows = window_rows;
  hello.program = std::string(program_invocation_short_name).substr(0, kNameBytesMax);
  hello.devices = place.devices;
  hello.environment = config.forwarded_environment;
  hello.vgpus = place.vgpus;
  hello.wait_ms = config.wait_ms;
  return hello;
}

Status CheckHello(const ClientHello& hello) {
  if (hello.devices.size() > kDeviceListBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "CUDA_VISIBLE_DEVICES has more than " + std::to_string(kDeviceListBytesMax) + " bytes; shorten it");
  }
  if (hello.vgpus.size() > kVgpuListBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  "TESSERA_VGPU has more than " + std::to_string(kVgpuListBytesMax) + " bytes; shorten it");
  }
  for (const std::string& entry : hello.environment) {
    if (entry.size() <= kEnvironmentEntryBytesMax) continue;
    return Status(StatusCode::kInvalidArgument,
                  "the environment variable " + entry.substr(0, entry.find('=')) + " is too long to be sent; shorten it");
  }
  return Status::Ok();
}

// What the channel can only call "the peer" is the server here, and the user needs to know what to do about it.
Status Explain(const Status& status) {
  switch (status.code()) {
    case StatusCode::kTimedOut:
      return Status(status.code(), "the server has not answered for " + std::to_string(kWelcomeTimeoutNs / 1'000'000'000) +
                                       " s: look after it, it is stopped, or its driver hangs");
    case StatusCode::kUnavailable:
      return Status(status.code(), "the server ended before the session began: look into its log, and start it again");
    default: return status;
  }
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Connect(const std::string& socket_path, const SessionPlace& place) {
  bool unknown = false;
  Result<UniqueFd> socket = ConnectToServer(socket_path, &unknown);
  if (!socket.ok()) return socket.status();
  if (unknown && FirstTime("the user of a server is not known")) LogWarning("{}", DescribeUnknownServer(socket_path));
  return Connect(std::move(*socket), place);
}

Result<std::unique_ptr<Session>> Session::Connect(UniqueFd socket, const SessionPlace& place) {
  const uint32_t rows = AddressWindows::Process().Offer();
  if (rows == 0) {
    return Status(StatusCode::kResourceExhausted,
                  "none of the address ranges for device memory is free in this process; lift its limit of address "
                  "space (ulimit -v unlimited)");
  }
  ClientHello hello = MakeHello(rows, place);
  RETURN_IF_ERROR(CheckHello(hello));
  Result<std::vector<std::byte>> ticket = ReadTicket(place.ticket_file);
  if (!ticket.ok()) return ticket.status();
  hello.ticket = std::move(*ticket);
  ServerWelcome welcome;
  const UniqueFd same(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));  // to ask who the server was when it has hung up
  Result<std::unique_ptr<Channel>> channel =
      Channel::Attach(std::move(socket), hello, &welcome, MonotonicNs() + kWelcomeTimeoutNs);
  if (!channel.ok()) return Explain(ExplainHangUp(same.get(), channel.status()));
  RETURN_IF_ERROR(AddressWindows::Process().Keep(static_cast<int>(welcome.window_row)));
  const WindowPair windows = SessionWindows(static_cast<int>(welcome.window_row), static_cast<int>(welcome.session_index));
  (*channel)->SetHostWindow(windows.host.base, windows.host.bytes);
  Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(welcome.snapshot);
  if (!snapshot.ok()) return snapshot.status();
  if (snapshot->selection != hello.devices) {
    return Status(StatusCode::kUnsupported, "the server did not apply CUDA_VISIBLE_DEVICES=" + hello.devices + " (it serves \"" +
                                                snapshot->selection +
                                                "\"); unset the variable, or ask for a server with the wanted devices");
  }
  LogInfo("session {} with {} has begun: {} devices", welcome.session_id, welcome.server, snapshot->devices.size());
  const bool mirrored = welcome.mirrored;
  if (welcome.session_index != place.index) {
    return Status(StatusCode::kProtocolViolation, "the server gave the session another index than it was asked for");
  }
  if (!place.ordinals.empty() && place.ordinals.size() != snapshot->devices.size()) {
    return Status(StatusCode::kUnavailable, "the server " + place.server + " has other devices than a moment ago, when it " +
                                                "was asked for them: start the program again");
  }
  Devices devices(std::move(*snapshot), mirrored, place.ordinals, place.disguise);
  return std::make_unique<Session>(std::move(*channel), std::move(welcome), std::move(devices), place.server);
}

}  // namespace tessera
