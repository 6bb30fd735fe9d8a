// The attributes of an extended launch (CUlaunchAttribute), with the handles in them replaced by the driver's objects.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>
#include <vector>

namespace tessera {

class CallContext;

class LaunchAttributes {
 public:
  static constexpr size_t kCountMax = 64;  // CUDA 13.0 defines 17 kinds

  // Copies and checks what a client sent. False: the call has been ended (malformed, or a handle is not live).
  bool Set(CallContext& call, std::span<const std::byte> bytes);
  CUlaunchAttribute* data() { return attributes_.empty() ? nullptr : attributes_.data(); }
  unsigned count() const { return static_cast<unsigned>(attributes_.size()); }
  // After the launch: the device nodes that the driver has written into the attributes which ask for one, in their order.
  std::vector<uint64_t> DeviceNodes() const;

 private:
  std::vector<CUlaunchAttribute> attributes_;
};

}  // namespace tessera
