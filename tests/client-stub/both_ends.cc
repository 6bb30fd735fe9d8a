#include "tests/client-stub/both_ends.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <cstdlib>

#include "client-stub/client.h"
#include "client-stub/session.h"
#include "protocol/base/check.h"
#include "protocol/memory/window_table.h"
#include "server/driver/loader.h"
#include "server/worker/session.h"

namespace tessera {
namespace {

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

}  // namespace

BothEnds::BothEnds() {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  server_ = std::thread([socket = ends[0]] {
    SessionOptions options;
    options.client_in_process = true;
    options.open_driver = [](const ClientHello& hello, std::string* selection) -> Result<const DriverTable*> {
      *selection = hello.devices;
      return LoadDriver();
    };
    const Status why = RunSession(UniqueFd(socket), options);
    CHECK(why.ok());
  });
  Result<std::unique_ptr<Session>> session = Session::Connect(UniqueFd(ends[1]));
  CHECK(session.ok());
  session_ = std::move(*session);
  // The client keeps the device window free for the server's driver, which here is in the same process.
  const WindowPair windows = SessionWindows(session_->window_row(), static_cast<int>(session_->index()));
  CHECK(munmap(reinterpret_cast<void*>(windows.device.base), windows.device.bytes) == 0);
  Client::Get().UseSessionForTest(session_.get());
  CHECK(cuDevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context_) == CUDA_SUCCESS);
}

BothEnds::~BothEnds() {
  cuCtxSetCurrent(nullptr);
  cuDevicePrimaryCtxRelease(0);
  Client::Get().UseSessionForTest(nullptr);
  session_.reset();
  server_.join();
}

}  // namespace tessera
