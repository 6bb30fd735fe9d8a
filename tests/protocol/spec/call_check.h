// Every export of the client library as no_silent_success_test.cc calls it. The generated files tests/<domain>_calls.cc list
// them with arguments that a driver could accept.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/wire/handle.h"

namespace tessera {

class ArgumentSource {
 public:
  // `live` gives an object's handle as the application has it; `device_pointer` is allocated.
  ArgumentSource(std::function<uint64_t(HandleKind kind)> live, CUdeviceptr device_pointer)
      : live_(std::move(live)), device_pointer_(device_pointer) {}

  CUdeviceptr DevicePointer() const { return device_pointer_; }

  template <typename T>
  T Handle(HandleKind kind) {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(live_(kind));
    } else {
      return static_cast<T>(live_(kind));
    }
  }
  // A pointer to an array of one live handle; further elements are null.
  template <typename T>
  T Handles(HandleKind kind) {
    auto& memory = NewMemory(inputs_, 0);
    const uint64_t handle = live_(kind);
    std::memcpy(memory.data(), &handle, sizeof(handle));
    return reinterpret_cast<T>(memory.data());
  }
  template <typename T>
  T Number(int value) {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(&ArgumentSource::Nothing);  // the only such types are functions
    } else if constexpr (std::is_class_v<T>) {
      return T{};
    } else {
      return static_cast<T>(value);
    }
  }
  // Zeroed memory, which is also the text "".
  template <typename T>
  T Input() {
    return reinterpret_cast<T>(NewMemory(inputs_, 0).data());
  }
  template <typename T>
  T Output() {
    return reinterpret_cast<T>(NewMemory(outputs_, kUntouched).data());
  }

  // Whether the call wrote into memory that it got from Output().
  bool WroteOutput() const {
    for (const auto& memory : outputs_) {
      for (std::byte byte : memory) {
        if (byte != std::byte{kUntouched}) return true;
      }
    }
    return false;
  }

 private:
  static constexpr unsigned char kUntouched = 0xa5;
  // The largest struct of the driver API has less than 1 KiB.
  using Memory = std::vector<std::byte>;
  static constexpr size_t kMemoryBytes = 4096;

  static void Nothing() {}
  static Memory& NewMemory(std::deque<Memory>& memories, unsigned char fill) {
    return memories.emplace_back(kMemoryBytes, std::byte{fill});
  }

  const std::function<uint64_t(HandleKind kind)> live_;
  const CUdeviceptr device_pointer_;
  std::deque<Memory> inputs_, outputs_;
};

struct TestedCall {
  const char* symbol;
  uint32_t id;       // of the call behind an alias
  const char* mode;  // as in the spec
  bool has_outputs;
  CUresult (*invoke)(ArgumentSource& source);
};

std::vector<TestedCall> AllCalls();

}  // namespace tessera
