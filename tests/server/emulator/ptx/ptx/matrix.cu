// Warp-level matrix instructions and asynchronous copies. Each kernel is one warp; sizes are those of the instruction.
#include <mma.h>

#include <cstdint>

using namespace nvcuda;

// d = a * b + c with a (16 x 16) row by row in shared memory, b (16 x 8) as its transpose, fragments by ldmatrix.
extern "C" __global__ void mma_f16(const uint32_t* a, const uint32_t* b, const float* c, float* d) {
  __shared__ __align__(16) uint32_t sa[16 * 8], sb[8 * 8];
  for (int i = threadIdx.x; i < 16 * 8; i += 32) sa[i] = a[i];
  for (int i = threadIdx.x; i < 8 * 8; i += 32) sb[i] = b[i];
  __syncwarp();
  const int lane = threadIdx.x, group = lane / 4, thread = lane % 4;
  uint32_t ra[4], rb[2];
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&sa[lane % 16 * 8 + lane / 16 * 4]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(address));
  address = static_cast<uint32_t>(__cvta_generic_to_shared(&sb[lane % 8 * 8 + lane / 8 % 2 * 4]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(address));
  float r[4];
  for (int i = 0; i < 4; ++i) r[i] = c[(group + i / 2 * 8) * 8 + thread * 2 + i % 2];
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 8 + thread * 2 + i % 2] = r[i];
}

// The same for tf32: a 16 x 8, b 8 x 8 (row k, column n).
extern "C" __global__ void mma_tf32(const float* a, const float* b, float* d) {
  const int lane = threadIdx.x, group = lane / 4, thread = lane % 4;
  uint32_t ra[4], rb[2];
  for (int i = 0; i < 4; ++i) ra[i] = __float_as_uint(a[(group + i % 2 * 8) * 8 + thread + i / 2 * 4]);
  for (int i = 0; i < 2; ++i) rb[i] = __float_as_uint(b[(thread + i * 4) * 8 + group]);
  float r[4] = {};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 8 + thread * 2 + i % 2] = r[i];
}

// s8: a 16 x 32 row by row, b as its transpose (8 x 32).
extern "C" __global__ void mma_s8(const uint32_t* a, const uint32_t* b, int* d) {
  const int lane = threadIdx.x, group = lane / 4, thread = lane % 4;
  uint32_t ra[4], rb[2];
  for (int i = 0; i < 4; ++i) ra[i] = a[(group + i % 2 * 8) * 8 + thread + i / 2 * 4];
  for (int i = 0; i < 2; ++i) rb[i] = b[group * 8 + thread + i * 4];
  int r[4] = {};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 8 + thread * 2 + i % 2] = r[i];
}

// f64: a 8 x 4, b 4 x 8.
extern "C" __global__ void mma_f64(const double* a, const double* b, double* d) {
  const int lane = threadIdx.x, group = lane / 4, thread = lane % 4;
  double r0 = 1, r1 = 1;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(r0), "+d"(r1)
               : "d"(a[group * 4 + thread]), "d"(b[thread * 8 + group]));
  d[group * 8 + thread * 2] = r0;
  d[group * 8 + thread * 2 + 1] = r1;
}

// A tile of 8 x 8 16-bit words, transposed on its way through ldmatrix, and once more by movmatrix and stmatrix.
extern "C" __global__ void transposes(const uint32_t* in, uint32_t* once, uint32_t* again) {
  __shared__ __align__(16) uint32_t tile[8 * 4], stored[8 * 4];
  const int lane = threadIdx.x;
  tile[lane] = in[lane];
  __syncwarp();
  uint32_t r, t;
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[lane % 8 * 4]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address));
  once[lane] = r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(r));
  address = static_cast<uint32_t>(__cvta_generic_to_shared(&stored[lane % 8 * 4]));
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" : : "r"(address), "r"(t) : "memory");
  __syncwarp();
  again[lane] = stored[lane];
}

template <int m, int n, int k, typename Result, typename Order>
__device__ void Wmma(const __half* a, const __half* b, const Result* c, Result* d, int ldb) {
  wmma::fragment<wmma::matrix_a, m, n, k, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, m, n, k, __half, Order> fb;
  wmma::fragment<wmma::accumulator, m, n, k, Result> fc;
  wmma::load_matrix_sync(fa, a, k);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, n, wmma::mem_row_major);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] * Result(2.0f);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, n, wmma::mem_row_major);
}
extern "C" __global__ void wmma_16_16(const __half* a, const __half* b, const float* c, float* d) {
  Wmma<16, 16, 16, float, wmma::row_major>(a, b, c, d, 16);
}
extern "C" __global__ void wmma_32_8(const __half* a, const __half* b, const float* c, float* d) {
  Wmma<32, 8, 16, float, wmma::col_major>(a, b, c, d, 16);
}
extern "C" __global__ void wmma_8_32(const __half* a, const __half* b, const __half* c, __half* d) {
  Wmma<8, 32, 16, __half, wmma::row_major>(a, b, c, d, 32);
}

// Sixteen bytes, eight of which come from memory and the rest is zero; four bytes of each lane.
extern "C" __global__ void copy_async(const uint32_t* in, uint32_t* out) {
  __shared__ __align__(16) uint32_t wide[32 * 4], narrow[32];
  const int lane = threadIdx.x;
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(&wide[lane * 4]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 8;" : : "r"(address), "l"(in + lane * 4) : "memory");
  address = static_cast<uint32_t>(__cvta_generic_to_shared(&narrow[lane]));
  const int bytes = lane % 2 * 4;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" : : "r"(address), "l"(in + lane), "r"(bytes) : "memory");
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 0;" : : : "memory");
  __syncwarp();
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = wide[lane * 4 + i];
  out[128 + lane] = narrow[lane];
}
