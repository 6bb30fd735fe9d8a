// What the test programs share: they are ordinary CUDA programs that compare their results with a CPU reference, print
// what differs and exit with 0 only when nothing does.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK_CUDA(call)                                                                                       \
  do {                                                                                                         \
    const cudaError_t check_error = (call);                                                                    \
    if (check_error != cudaSuccess) {                                                                          \
      std::fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error), \
                   static_cast<int>(check_error));                                                             \
      std::exit(1);                                                                                            \
    }                                                                                                          \
  } while (false)

#define CHECK_DRIVER(call)                                                                                \
  do {                                                                                                    \
    const CUresult check_result = (call);                                                                 \
    if (check_result != CUDA_SUCCESS) {                                                                   \
      std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, static_cast<int>(check_result)); \
      std::exit(1);                                                                                       \
    }                                                                                                     \
  } while (false)

#define EXPECT_EQ(actual, expected)                                                                                           \
  do {                                                                                                                        \
    const auto expect_actual = (actual);                                                                                      \
    const auto expect_expected = (expected);                                                                                  \
    if (!(expect_actual == expect_expected)) {                                                                                \
      std::fprintf(stderr, "%s:%d: %s is %g, expected %g\n", __FILE__, __LINE__, #actual, static_cast<double>(expect_actual), \
                   static_cast<double>(expect_expected));                                                                     \
      std::exit(1);                                                                                                           \
    }                                                                                                                         \
  } while (false)
