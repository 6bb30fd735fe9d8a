// The client library and a worker on the emulator in one process: tests call the exported functions as an application
// does. With TESSERA_TEST_CHANNEL=mirrored in the environment the two ends share no pages, as over a link. With native_ends.cc in
// place of both_ends.cc the same tests run on whatever libcuda.so.1 is found (the real driver, or this library under
// `tessera run`).
#pragma once

#include <cuda.h>

#include <memory>
#include <thread>

namespace tessera {

class Mirror;
class RoomMaker;
class Session;
struct DriverTable;
struct SessionPlace;

// A server on a thread of this process, and a session with it.
class ServerInProcess {
 public:
  // `driver` is the server's; null: the emulator that all of them share. `change` as of BothEnds.
  ServerInProcess(const SessionPlace& place, const DriverTable* driver, void (*change)(DriverTable& driver));
  // Nobody may be in a call.
  ~ServerInProcess();
  Session& session() { return *session_; }

 private:
  std::unique_ptr<Mirror> mirror_;  // null: the two ends share their pages
  std::thread server_;
  std::unique_ptr<Session> session_;
};

// Whom servers that begin from now on ask for room in the device's memory; null, as at first: nobody.
void SetRoomMaker(RoomMaker* rooms);

// Another emulator: its devices have nothing to do with those of the shared one. Stays loaded.
const DriverTable* LoadAnotherEmulator();

class BothEnds {
 public:
  // The emulator's context is current on the calling thread. `change` replaces functions of the server's driver by the
  // test's own, for what the emulator does not have.
  explicit BothEnds(void (*change)(DriverTable& driver) = nullptr);
  ~BothEnds();
  Session& session() { return server_.session(); }
  CUcontext context() const { return context_; }

 private:
  ServerInProcess server_;
  CUcontext context_ = nullptr;
};

// Those of most tests: made by the first call, with an unchanged driver, and kept until the process ends.
BothEnds& Ends();

}  // namespace tessera
