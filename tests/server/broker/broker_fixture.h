// What tests of the broker in virtual time share: two vGPUs of one GPU, and the share of time that a session gets.
#pragma once

#include <gtest/gtest.h>

#include "tests/server/broker/virtual_workers.h"

namespace tessera {

// A file with two vGPUs, "a" and "b", of GPU 0.
inline constexpr const char* kSeventyThirty = R"(
[[vgpu]]
name = "a"
request = 0.69
[[vgpu]]
name = "b"
request = 0.3
)";

// Runs the server for `length_ns`. Returns the part of that time, 0 to 1, in which `worker` used the GPU.
inline double ShareOf(VirtualServer& server, VirtualWorker& worker, int64_t length_ns) {
  const int64_t before_ns = worker.used_ns;
  server.RunFor(length_ns);
  return static_cast<double>(worker.used_ns - before_ns) / static_cast<double>(length_ns);
}

// A server with the vGPUs of kSeventyThirty, each with a session.
struct Pair {
  explicit Pair(bool greedy) {
    EXPECT_EQ(server.TakeFile(kSeventyThirty).code, StatusCode::kOk);
    a = &server.Begin("a");
    b = &server.Begin("b");
    a->greedy = b->greedy = greedy;
  }
  VirtualServer server{{}, 1};
  VirtualWorker* a = nullptr;
  VirtualWorker* b = nullptr;
};

}  // namespace tessera
