// What two processes of a case share.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "../pass_descriptor.h"
#include "parts.h"

namespace gate_waits {

// The first one's memory; an event of each.
class Pair {
 public:
  Pair(int socket, bool first) : socket_(socket), first_(first), stream(NewStream()) {
    CHECK_DRIVER(cuEventCreate(&own, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    Message mine{}, theirs{};
    CHECK_DRIVER(cuIpcGetEventHandle(&mine.event, own));
    if (first) {
      words_.emplace_back();
      base = words_[0].base;
      CHECK_DRIVER(cuIpcGetMemHandle(&mine.memory, base));
    }
    SendFd(socket, &mine, sizeof(mine), -1);
    ReceiveFd(socket, &theirs, sizeof(theirs));
    CHECK_DRIVER(cuIpcOpenEventHandle(&others, theirs.event));
    if (!first) CHECK_DRIVER(cuIpcOpenMemHandle(&base, theirs.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    Learn(stream);
    Tell();
    Hear();
  }
  ~Pair() {
    CHECK_DRIVER(cuStreamSynchronize(stream));
    CHECK_DRIVER(cuEventDestroy(others));
    if (!first_) CHECK_DRIVER(cuIpcCloseMemHandle(base));
    Tell();
    Hear();
    CHECK_DRIVER(cuEventDestroy(own));
    CHECK_DRIVER(cuStreamDestroy(stream));
  }
  void Tell() { SendFd(socket_, "t", 1, -1); }
  void Hear() {
    char said = 0;
    ReceiveFd(socket_, &said, 1);
  }
  CUdeviceptr at(int i) const { return base + static_cast<CUdeviceptr>(i) * 64; }
  uint32_t Read(int i) const {
    uint32_t value = 0;
    CHECK_DRIVER(cuMemcpyDtoHAsync(&value, at(i), sizeof(value), stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    return value;
  }

 private:
  struct Message {
    CUipcMemHandle memory;
    CUipcEventHandle event;
  };
  const int socket_;
  const bool first_;
  std::vector<Words> words_;

 public:
  const CUstream stream;
  CUdeviceptr base = 0;
  CUevent own, others;
};

}  // namespace gate_waits
