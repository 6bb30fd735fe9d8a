// Half-precision kernels of half_test.cc.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void half_math(const __half* a, const __half* b, __half* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half* o = out + 8 * i;
  o[0] = __hadd(a[i], b[i]);
  o[1] = __hmul(a[i], b[i]);
  o[2] = __hfma(a[i], b[i], a[i]);
  o[3] = __hmax(a[i], b[i]);
  o[4] = __hneg(__habs(a[i]));
  o[5] = __hlt(a[i], b[i]) ? __float2half(1.0f) : __float2half(2.0f);
  o[6] = __hadd_sat(a[i], b[i]);
  o[7] = hexp2(a[i]);
}

extern "C" __global__ void brain_math(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat16* o = out + 4 * i;
  o[0] = __hadd(a[i], b[i]);
  o[1] = __hmul(a[i], b[i]);
  o[2] = __hfma(a[i], b[i], a[i]);
  o[3] = __hmin(a[i], b[i]);
}

extern "C" __global__ void pair_math(const __half2* a, const __half2* b, __half2* out, float2* sums) {
  int i = threadIdx.x;
  __half2 r = __hfma2(a[i], b[i], __hadd2(a[i], b[i]));
  out[2 * i] = r;
  out[2 * i + 1] = __hgt2(a[i], b[i]);
  sums[i] = __half22float2(__floats2half2_rn(__low2float(r), 2.0f * __high2float(r)));
}

extern "C" __global__ void atomic_half(__half2* sum, __nv_bfloat16* brain, double* wide) {
  atomicAdd(sum, __floats2half2_rn(1.0f, 0.5f));
  atomicAdd(brain, __float2bfloat16(1.0f));
  atomicAdd(wide, 0.25);
}

extern "C" __global__ void eight_bits(const float* in, unsigned char* e4m3, unsigned char* e5m2, float* back) {
  int i = threadIdx.x;
  __nv_fp8_e4m3 x(in[i]);
  __nv_fp8_e5m2 y(in[i]);
  e4m3[i] = x.__x;
  e5m2[i] = y.__x;
  back[2 * i] = float(x);
  back[2 * i + 1] = float(y);
}
