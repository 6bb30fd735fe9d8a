// Drives a target with libFuzzer. TESSERA_WRITE_SEEDS=DIR in the environment: writes the seeds there and ends.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "protocol/base/log.h"
#include "tests/fuzz/target.h"

using tessera::fuzz::Input;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  tessera::SetLogLevel(tessera::LogLevel::kOff);
  const char* directory = std::getenv("TESSERA_WRITE_SEEDS");
  if (directory == nullptr) return 0;
  int number = 0;
  for (const Input& seed : tessera::fuzz::Seeds()) {
    std::ofstream file(std::string(directory) + "/seed" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Input copy(bytes.begin(), bytes.end());
  tessera::fuzz::Run(copy);
  return 0;
}
