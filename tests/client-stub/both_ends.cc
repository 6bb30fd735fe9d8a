#include "tests/client-stub/both_ends.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "generated/driver_table.h"
#include "protocol/base/check.h"
#include "protocol/memory/window_table.h"
#include "server/driver/loader.h"
#include "server/shares/share_broker.h"
#include "server/worker/session.h"
#include "tests/support/mirror.h"

namespace tessera {
namespace {

RoomMaker* room_maker = nullptr;

// The emulator, or what TESSERA_TEST_DRIVER names ("real": the machine's driver).
const DriverTable* LoadDriver() {
  static const auto* driver = [] {
    const char* where = std::getenv("TESSERA_TEST_DRIVER");
    Result<std::unique_ptr<Driver>> loaded = Driver::Load(where != nullptr ? where : TESSERA_EMULATOR_PATH);
    CHECK(loaded.ok());
    CHECK((*loaded)->CountDevices().ok());
    return loaded->release();
  }();
  return &driver->table();
}

// Two connected sockets: the client's and the server's. With TESSERA_TEST_CHANNEL=mirrored two relays and a link are between
// them, so that the ends share no pages.
std::pair<UniqueFd, UniqueFd> Connect(std::unique_ptr<Mirror>* mirror) {
  const auto pair = [] {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    return std::pair<UniqueFd, UniqueFd>(ends[0], ends[1]);
  };
  const char* channel = std::getenv("TESSERA_TEST_CHANNEL");
  if (channel == nullptr) return pair();
  CHECK(std::string_view(channel) == "mirrored");
  auto [client, near] = pair();
  auto [far, server] = pair();
  *mirror = Mirror::Start(std::move(near), std::move(far));
  return {std::move(client), std::move(server)};
}

}  // namespace

ServerInProcess::ServerInProcess(const SessionPlace& place, const DriverTable* driver, void (*change)(DriverTable& driver)) {
  auto [client, server] = Connect(&mirror_);
  server_ = std::thread([socket = server.release(), driver, change] {
    SessionOptions options;
    options.client_in_process = true;
    static auto* const shares = new LocalShareBroker;
    options.shares = shares;
    options.rooms = room_maker;
    options.open_driver = [driver, change](const ClientHello& hello, std::string* selection) -> Result<const DriverTable*> {
      *selection = hello.devices;
      const DriverTable* const loaded = driver != nullptr ? driver : LoadDriver();
      if (change == nullptr) return loaded;
      static DriverTable changed;
      changed = *loaded;
      change(changed);
      return &changed;
    };
    const Status why = RunSession(UniqueFd(socket), options);
    CHECK(why.ok());
  });
  Result<std::unique_ptr<Session>> session = Session::Connect(std::move(client), place);
  CHECK(session.ok());
  CHECK((*session)->mirrored() == (mirror_ != nullptr));
  session_ = std::move(*session);
  // The client keeps the device window free for the server's driver, which here is in the same process.
  const WindowPair windows = SessionWindows(session_->window_row(), static_cast<int>(session_->index()));
  CHECK(munmap(reinterpret_cast<void*>(windows.device.base), windows.device.bytes) == 0);
}

ServerInProcess::~ServerInProcess() {
  session_.reset();
  server_.join();
}

void SetRoomMaker(RoomMaker* rooms) { room_maker = rooms; }

const DriverTable* LoadAnotherEmulator() {
  // The loader gives a file that it knows already the same state, and one of another name its own.
  const auto copy = std::filesystem::temp_directory_path() / ("another-emulator-" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(TESSERA_EMULATOR_PATH, copy, std::filesystem::copy_options::overwrite_existing);
  Result<std::unique_ptr<Driver>> loaded = Driver::Load(copy.string());
  std::filesystem::remove(copy);
  CHECK(loaded.ok());
  CHECK((*loaded)->CountDevices().ok());
  static auto* const kept = new std::vector<std::unique_ptr<Driver>>;
  kept->push_back(std::move(*loaded));
  return &kept->back()->table();
}

BothEnds::BothEnds(void (*change)(DriverTable& driver)) : server_(SessionPlace{}, nullptr, change) {
  Client::Get().UseSessionForTest(&server_.session());
  CHECK(cuDevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context_) == CUDA_SUCCESS);
}

BothEnds::~BothEnds() {
  cuCtxSetCurrent(nullptr);
  cuDevicePrimaryCtxRelease(0);
  Client::Get().UseSessionForTest(nullptr);
}

BothEnds& Ends() {
  static auto* ends = new BothEnds;
  return *ends;
}

}  // namespace tessera
