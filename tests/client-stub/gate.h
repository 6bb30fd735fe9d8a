// Holds a stream back until a test lets it go on.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace tessera {

class Gate {
 public:
  explicit Gate(CUstream stream) {
    // The stream may pass it after a test has opened and destroyed it.
    auto* opened = new std::shared_future<void>(opened_.get_future());
    EXPECT_EQ(cuLaunchHostFunc(
                  stream,
                  [](void* argument) {
                    const std::unique_ptr<std::shared_future<void>> opened(static_cast<std::shared_future<void>*>(argument));
                    opened->wait();
                  },
                  opened),
              CUDA_SUCCESS);
  }
  // Once, from any thread.
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

}  // namespace tessera
