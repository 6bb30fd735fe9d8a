// A process with sessions of two servers, each with an emulator of its own, all in this process.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "tests/client-stub/both_ends.h"

namespace tessera {

// Make one in a test's process and never destroy it.
class TwoServersInProcess {
 public:
  // `change`: of the second server's driver, as BothEnds has it; may be null.
  explicit TwoServersInProcess(void (*change)(DriverTable& driver) = nullptr)
      : first_(PlaceOf(0), nullptr, nullptr), second_(PlaceOf(1), LoadAnotherEmulator(), change) {
    Session* const sessions[] = {&first_.session(), &second_.session()};
    Client::Get().UseSessionsForTest(sessions);
  }

 private:
  static SessionPlace PlaceOf(uint32_t index) {
    SessionPlace place;
    place.index = index;
    place.server = index == 0 ? "first" : "second";
    place.ordinals = {static_cast<CUdevice>(index)};
    place.disguise.server = index;
    return place;
  }

  ServerInProcess first_, second_;
};

}  // namespace tessera
