#include <cassert>
extern "C" __global__ void asserts(int n) { assert(threadIdx.x != n); }
