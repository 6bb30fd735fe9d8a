// What an image holds, decoded: PTX texts and cubins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::code_image {

inline constexpr uint32_t kFatbinMagic = 0xBA55ED50;
inline constexpr uint32_t kWrapperMagic = 0x466243B1;
inline constexpr uint64_t kMaxDecompressedBytes = 256ull << 20;  // bound of one entry and of an image in total

struct PtxEntry {
  std::string text;   // without trailing NULs
  uint32_t sm = 0;    // 90 for sm_90, sm_90a, sm_90f
  char suffix = 0;    // 'a', 'f' or 0, from the .target directive
  uint32_t part = 0;  // index of the part it came from
};

struct CubinParameter {
  uint32_t offset_bytes = 0;
  uint32_t size_bytes = 0;
};
struct CubinKernel {
  std::string name;
  std::vector<CubinParameter> parameters;  // in order
  uint32_t max_threads_per_block = 0;      // 0 when not stated
  uint32_t register_count = 0;
  uint32_t static_shared_bytes = 0;
};
struct CubinVariable {
  std::string name;
  uint64_t size_bytes = 0;
  bool is_const = false;
};
struct CubinEntry {
  uint32_t sm = 0;
  uint32_t part = 0;
  uint64_t size_bytes = 0;  // of the file, decompressed; 0 when it was not looked at
  std::vector<CubinKernel> kernels;
  std::vector<CubinVariable> variables;
  bool calls_vprintf = false;  // its symbols name the device function vprintf: kernels may print
};

struct Image {
  std::vector<PtxEntry> ptx;
  std::vector<CubinEntry> cubins;
};

}  // namespace tessera::code_image
