// Holds a stream back until a test lets it go on.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <future>

namespace tessera {

class Gate {
 public:
  explicit Gate(CUstream stream) {
    EXPECT_EQ(cuLaunchHostFunc(
                  stream, [](void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); }, this),
              CUDA_SUCCESS);
  }
  // Once, from any thread. The gate must live until the stream has passed it.
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

}  // namespace tessera
