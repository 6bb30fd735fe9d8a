// The emulated GPU's driver, which refuses each context but the primary one with the flags that it has. For vgpu_memory_test.py.

namespace {
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
}

extern "C" {
__attribute__((visibility("default"))) int cuCtxCreate_v2(void*, unsigned, int) { return kNotSupported; }
__attribute__((visibility("default"))) int cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return kNotSupported; }
}
