// Texture and surface references, which programs before CUDA 12 read and wrote images through: found in a module by name,
// bound to linear memory and to arrays. The emulated GPU has none; the program says so and ends.
#include <cuda.h>

#include <vector>

#include "check.h"

namespace {

const char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64
.global .texref image;
.global .surfref canvas;
.visible .entry fetch(.param .u64 out) {
  .reg .u64 %rd<3>;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [image, {%r1}];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r2;
  ret;
}
.visible .entry store() {
  .reg .b32 %r<4>;
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  add.u32 %r3, %r1, 40;
  sust.b.1d.b32.trap [canvas, {%r2}], {%r3};
  ret;
}
)";

constexpr unsigned kElements = 32;
CUmodule module;

void Launch(const char* name, void** parameters) {
  CUfunction function;
  CHECK_DRIVER(cuModuleGetFunction(&function, module, name));
  CHECK_DRIVER(cuLaunchKernel(function, 1, 1, 1, kElements, 1, 1, 0, nullptr, parameters, nullptr));
}

std::vector<unsigned> Fetch(CUdeviceptr out) {
  void* parameters[] = {&out};
  std::vector<unsigned> fetched(kElements);
  Launch("fetch", parameters);
  CHECK_DRIVER(cuMemcpyDtoH(fetched.data(), out, kElements * sizeof(unsigned)));
  return fetched;
}

void ExpectFrom(unsigned first, const std::vector<unsigned>& values) {
  for (unsigned i = 0; i < kElements; ++i) EXPECT_EQ(values[i], first + i);
}

}  // namespace

int main() {
  CHECK_DRIVER(cuInit(0));
  CUcontext context;
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CHECK_DRIVER(cuModuleLoadData(&module, kPtx));
  CUtexref image = nullptr, again = nullptr;
  const CUresult found = cuModuleGetTexRef(&image, module, "image");
  if (found == CUDA_ERROR_NOT_SUPPORTED) {
    std::printf("no references on this device\nok\n");
    return 0;
  }
  CHECK_DRIVER(found);
  CHECK_DRIVER(cuModuleGetTexRef(&again, module, "image"));
  EXPECT_EQ(image == again, true);
  EXPECT_EQ(static_cast<int>(cuModuleGetTexRef(&again, module, "nothing")), static_cast<int>(CUDA_ERROR_NOT_FOUND));
  EXPECT_EQ(static_cast<int>(cuTexRefSetFlags(nullptr, 0)), static_cast<int>(CUDA_ERROR_INVALID_HANDLE));

  // What is set is what is read back.
  CHECK_DRIVER(cuTexRefSetFormat(image, CU_AD_FORMAT_UNSIGNED_INT32, 1));
  CHECK_DRIVER(cuTexRefSetFlags(image, CU_TRSF_READ_AS_INTEGER));
  CHECK_DRIVER(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_POINT));
  CHECK_DRIVER(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_CLAMP));
  float border[4] = {1, 2, 3, 4}, read_border[4] = {}, low = 0, high = 0;
  CHECK_DRIVER(cuTexRefSetBorderColor(image, border));
  CHECK_DRIVER(cuTexRefGetBorderColor(read_border, image));
  EXPECT_EQ(read_border[3], 4.f);
  CHECK_DRIVER(cuTexRefSetMipmapLevelClamp(image, 0.25f, 3));
  CHECK_DRIVER(cuTexRefGetMipmapLevelClamp(&low, &high, image));
  EXPECT_EQ(low + high, 3.25f);
  CUarray_format format;
  int channels = 0;
  unsigned flags = 0;
  CHECK_DRIVER(cuTexRefGetFormat(&format, &channels, image));
  EXPECT_EQ(static_cast<int>(format) == static_cast<int>(CU_AD_FORMAT_UNSIGNED_INT32) && channels == 1, true);
  CHECK_DRIVER(cuTexRefGetFormat(nullptr, nullptr, image));
  CHECK_DRIVER(cuTexRefGetFlags(&flags, image));
  EXPECT_EQ(flags, static_cast<unsigned>(CU_TRSF_READ_AS_INTEGER));

  CUdeviceptr in, out, bound = 0;
  CHECK_DRIVER(cuMemAlloc(&in, 4096));
  CHECK_DRIVER(cuMemAlloc(&out, 4096));
  std::vector<unsigned> values(kElements);
  for (unsigned i = 0; i < kElements; ++i) values[i] = 100 + i;
  CHECK_DRIVER(cuMemcpyHtoD(in, values.data(), kElements * sizeof(unsigned)));
  size_t offset = 7;
  EXPECT_EQ(static_cast<int>(cuTexRefGetAddress(&bound, image)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  CHECK_DRIVER(cuTexRefSetAddress(&offset, image, in, kElements * sizeof(unsigned)));
  EXPECT_EQ(offset, size_t{0});
  CHECK_DRIVER(cuTexRefGetAddress(&bound, image));
  EXPECT_EQ(bound == in, true);
  ExpectFrom(100, Fetch(out));

  CUarray array, got = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = kElements;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  descriptor.NumChannels = 1;
  descriptor.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  CHECK_DRIVER(cuArray3DCreate(&array, &descriptor));
  CUsurfref canvas = nullptr;
  CHECK_DRIVER(cuModuleGetSurfRef(&canvas, module, "canvas"));
  EXPECT_EQ(static_cast<int>(cuSurfRefGetArray(&got, canvas)), static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  CHECK_DRIVER(cuSurfRefSetArray(canvas, array, 0));
  CHECK_DRIVER(cuSurfRefGetArray(&got, canvas));
  EXPECT_EQ(got == array, true);
  Launch("store", nullptr);
  CHECK_DRIVER(cuMemcpyAtoH(values.data(), array, 0, kElements * sizeof(unsigned)));
  ExpectFrom(40, values);
  CHECK_DRIVER(cuTexRefSetArray(image, array, CU_TRSA_OVERRIDE_FORMAT));
  CHECK_DRIVER(cuTexRefGetArray(&got, image));
  EXPECT_EQ(got == array, true);
  // What a fetch by whole numbers finds in an array is the driver's business (0 on an H200): no more than seen.
  std::printf("fetched from the array: %u\n", Fetch(out)[1]);

  CUtexref made = nullptr;
  CHECK_DRIVER(cuTexRefCreate(&made));
  CHECK_DRIVER(cuTexRefSetFormat(made, CU_AD_FORMAT_FLOAT, 4));
  CHECK_DRIVER(cuTexRefDestroy(made));
  CHECK_DRIVER(cuModuleUnload(module));
  CHECK_DRIVER(cuArrayDestroy(array));
  CHECK_DRIVER(cuMemFree(in));
  CHECK_DRIVER(cuMemFree(out));
  std::printf("ok\n");
}
