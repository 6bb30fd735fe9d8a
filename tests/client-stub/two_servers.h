// Two servers of one process, each with an emulator of its own, and a session with each.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {

class TwoServersInProcess {
 public:
  // Starts both at the first call, until the process ends; later calls do nothing. From one thread.
  // `change`: of the second server's driver, as BothEnds has it; may be null.
  static void Start(void (*change)(DriverTable& driver) = nullptr) {
    if (started_ == nullptr) started_ = new TwoServersInProcess(change);
  }

 private:
  explicit TwoServersInProcess(void (*change)(DriverTable& driver))
      : first_(PlaceOf(0), nullptr, nullptr), second_(PlaceOf(1), LoadAnotherEmulator(), change) {
    Session* const sessions[] = {&first_.session(), &second_.session()};
    Client::Get().UseSessionsForTest(sessions);
  }
  static SessionPlace PlaceOf(uint32_t index) {
    SessionPlace place;
    place.index = index;
    place.server = index == 0 ? "first" : "second";
    place.ordinals = {static_cast<CUdevice>(index)};
    place.disguise.server = index;
    return place;
  }

  // A static that nothing reads would be optimised away, and its object reported as a leak.
  static inline TwoServersInProcess* started_ = nullptr;

  ServerInProcess first_, second_;
};

}  // namespace tessera
