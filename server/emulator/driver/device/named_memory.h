// Memory that other processes find by a number: what the emulated driver shares by itself, where the caller gets bytes
// to pass on instead of a descriptor. Files in /dev/shm, open to processes of this user, gone with the object that made
// them; what processes that were killed left there is removed by the next that makes one. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/base/unique_fd.h"

namespace tessera::emulator {

class NamedMemory {
 public:
  // `size_bytes` of zeros. Null when the system has no more.
  static std::shared_ptr<NamedMemory> Create(uint64_t size_bytes);
  // What another process (or this one) has made under this number, with at least this size. Null when there is nothing.
  static std::shared_ptr<NamedMemory> Open(uint64_t number, uint64_t size_bytes);
  ~NamedMemory();

  int fd() const { return fd_.get(); }
  // Random; never 0.
  uint64_t number() const { return number_; }

 private:
  NamedMemory(UniqueFd fd, uint64_t number, bool own) : fd_(std::move(fd)), number_(number), own_(own) {}

  const UniqueFd fd_;
  const uint64_t number_;
  const bool own_;
};

}  // namespace tessera::emulator
