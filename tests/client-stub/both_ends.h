// The client library and a worker on the emulator in one process: tests call the exported functions as an application
// does.
#pragma once

#include <cuda.h>

#include <memory>
#include <thread>

#include "client-stub/session.h"

namespace tessera {

class BothEnds {
 public:
  // The emulator's context is current on the calling thread.
  BothEnds();
  ~BothEnds();
  Session& session() { return *session_; }
  CUcontext context() const { return context_; }

 private:
  std::thread server_;
  std::unique_ptr<Session> session_;
  CUcontext context_ = nullptr;
};

}  // namespace tessera
