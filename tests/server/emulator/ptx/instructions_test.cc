// Single instructions against what an H200 computed (instructions/README.md), over operands full of edges.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/server/emulator/ptx/instructions/operands.h"
#include "tests/server/emulator/ptx/test_device.h"

namespace tessera::emulator {
namespace {

std::string Path(const char* name) { return std::string(TESSERA_TEST_PTX_DIR) + "/../instructions/" + name; }

TEST(Instructions, GiveWhatADeviceGives) {
  std::ifstream gold(Path("instructions.gold"));
  std::vector<uint64_t> expected;
  for (std::string line; std::getline(gold, line);) expected.push_back(std::stoull(line, nullptr, 16));
  ASSERT_GT(expected.size(), 800u);

  TestDevice device;
  std::stringstream made;
  made << std::ifstream(TESSERA_TEST_INSTRUCTIONS).rdbuf();
  const std::string text = made.str();
  auto module = CompileText(device, text);
  ASSERT_NE(module, nullptr);
  uint64_t* operands[4];
  for (uint32_t i = 0; i < 4; ++i) operands[i] = device.Array(InstructionOperands(i));
  // With the device's full results at hand (record.cc writes them) a difference is shown operand by operand.
  std::ifstream full;
  if (const char* file = std::getenv("TESSERA_INSTRUCTION_RESULTS")) full.open(file, std::ios::binary);
  for (size_t k = 0; k < expected.size(); ++k) {
    const std::string name = "k" + std::to_string(k);
    std::memset(operands[3], 0, kTripleCount * 8);
    const LaunchResult result =
        device.Run(*module, name, {1}, {kTripleCount}, 0, operands[0], operands[1], operands[2], operands[3]);
    const size_t at = text.find("%hc, %qc;\n", text.find(".entry " + name + "(")) + 10;
    const std::string what = text.substr(at, text.find("st.global", at) - at);
    ASSERT_TRUE(result.ok()) << what << result.message;
    EXPECT_EQ(HashResults(operands[3]), expected[k]) << name << ": " << what;
    if (full.is_open() && HashResults(operands[3]) != expected[k]) {
      uint64_t real[kTripleCount];
      full.seekg(static_cast<std::streamoff>(k * sizeof(real)));
      full.read(reinterpret_cast<char*>(real), sizeof(real));
      int shown = 0;
      for (size_t i = 0; i < kTripleCount && shown < 3; ++i) {
        if (real[i] == operands[3][i]) continue;
        ++shown;
        std::printf("  %s a=%016lx b=%016lx c=%016lx device=%016lx here=%016lx\n", name.c_str(), operands[0][i], operands[1][i],
                    operands[2][i], real[i], operands[3][i]);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::emulator
