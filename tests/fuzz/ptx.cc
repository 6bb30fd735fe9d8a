// PTX: lexed, parsed, linked, its variables placed, every kernel lowered. Input: the text.
#include "server/emulator/ptx/run/module.h"
#include "server/emulator/ptx/run/program.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/target.h"
#include "tests/server/emulator/ptx/test_device.h"

namespace tessera::fuzz {
namespace {

// Texts longer than this take long and tell no more.
constexpr size_t kTextBytesMax = 16 * 1024;

}  // namespace

void Run(std::span<const std::byte> input) {
  if (input.size() > kTextBytesMax) return;
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  emulator::TestMemory memory;
  emulator::TestAllocator allocator(memory);
  Result<std::unique_ptr<emulator::Module>> module = emulator::Module::Compile({text}, allocator);
  if (!module.ok()) return;
  for (const auto& kernel : (*module)->kernels()) (void)emulator::PrepareExecutable(*kernel).ok();
}

// One kernel a seed: header, and what stands before the next blank line after the kernel.
std::vector<Input> Seeds() {
  std::vector<Input> seeds;
  for (const char* directory : {TESSERA_TEST_PTX_DIR, TESSERA_TEST_IMAGE_DIR}) {
    for (const Input& file : FilesOf(directory, {".ptx"})) {
      const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
      const size_t first = std::min(text.find(".visible"), text.find(".entry"));
      if (text.size() <= kTextBytesMax || first == std::string::npos) {
        seeds.push_back(file);
        continue;
      }
      const std::string header = text.substr(0, first);
      for (size_t at = first; at < text.size();) {
        const size_t next = text.find(".visible", at + 1);
        const std::string seed = header + text.substr(at, next == std::string::npos ? next : next - at);
        const auto bytes = std::as_bytes(std::span(seed));
        if (seed.size() <= kTextBytesMax) seeds.emplace_back(bytes.begin(), bytes.end());
        at = next;
      }
    }
  }
  return seeds;
}

}  // namespace tessera::fuzz
