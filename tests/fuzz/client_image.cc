// The extent of an image, read by the client behind a bare pointer. The application is trusted to hand over whole
// images; what is checked is that no image makes the client take more than an image can have. Input: the image; for a
// wrapper, its part.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "client-stub/code/image.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/target.h"

namespace tessera::fuzz {
namespace {

// Whatever an image says of its extent is there: zeros. Offsets and sizes are bounded by kImageBytesMax each.
constexpr size_t kMemoryBytes = 3 * kImageBytesMax;

std::byte* Memory() {
  static auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  FUZZ_CHECK(memory != MAP_FAILED);
  return memory;
}

struct NvccWrapper {
  uint32_t magic = 0x466243B1;
  uint32_t version = 0;
  const void* data = nullptr;
  const void* list = nullptr;
};

void Check(const void* image) {
  Result<ImageParts> found = FindImageParts(image);
  if (!found.ok()) return;
  FUZZ_CHECK(!found->parts.empty());
  for (const auto& part : found->parts) {
    FUZZ_CHECK(part.size() <= kImageBytesMax + UINT16_MAX);
    FUZZ_CHECK(part.data() >= Memory() && part.data() + part.size() <= Memory() + kMemoryBytes);
  }
}

}  // namespace

void Run(std::span<const std::byte> input) {
  std::byte* memory = Memory();
  if (input.size() < 4) return;
  std::memcpy(memory, input.data(), input.size());
  uint32_t magic = 0;
  std::memcpy(&magic, memory, sizeof(magic));
  if (magic != NvccWrapper().magic) Check(memory);  // a wrapper holds pointers of the application's own
  const void* list[] = {memory, memory, nullptr};
  for (const uint32_t version : {1u, 2u}) {
    const NvccWrapper wrapper{NvccWrapper().magic, version, memory, list};
    Check(&wrapper);
  }
  std::memset(memory, 0, input.size());
}

std::vector<Input> Seeds() { return FilesOf(TESSERA_TEST_IMAGE_DIR, {".fatbin", ".cubin", ".ptx"}); }

}  // namespace tessera::fuzz
