// Images as the emulated driver reads them: fatbins with their compression, cubins, PTX. Input: one part.
#include <cstdio>
#include <cstdlib>

#include "server/code_image/image.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/target.h"

namespace tessera::fuzz {

void Run(std::span<const std::byte> input) {
  const Input copy(input.begin(), input.end());
  Result<uint64_t> size = code_image::PartSize(copy);
  FUZZ_CHECK(!size.ok() || *size <= copy.size());
  for (const uint32_t only_sm : {0u, 90u}) {
    Result<code_image::Image> image = code_image::DecodeImage({copy}, only_sm);
    if (!image.ok()) continue;
    (void)code_image::SelectImage(*image, 90).ok();
    (void)code_image::SelectImage(*image, 75).ok();
  }
}

std::vector<Input> Seeds() { return FilesOf(TESSERA_TEST_IMAGE_DIR, {".fatbin", ".cubin", ".ptx"}); }

}  // namespace tessera::fuzz
