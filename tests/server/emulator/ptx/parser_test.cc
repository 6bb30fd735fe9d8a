// Loading: syntax errors, damaged text, linking, and what is refused when.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "server/emulator/ptx/parse/parser.h"
#include "tests/server/emulator/ptx/test_device.h"

namespace tessera::emulator {
namespace {

constexpr char kHead[] = ".version 9.0\n.target sm_90\n.address_size 64\n";

std::string Kernel(const std::string& body) {
  return std::string(kHead) +
         ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<40>;\n.reg .f32 %f<20>;\n.reg "
         ".f64 %d<20>;\n.reg .b64 %q<20>;\n" +
         "ld.param.u64 %q0, [p];\n" + body + "\nret;\n}\n";
}

TEST(Parser, EveryPrefixEnds) {
  for (const char* name : {"grid_sync.ptx", "assert.ptx"}) {
    const std::string text = ReadPtx(name);
    ASSERT_FALSE(text.empty());
    for (size_t n = 0; n <= text.size(); ++n) {
      TestDevice device;
      Result<std::unique_ptr<Module>> module = Module::Compile({std::string_view(text).substr(0, n)}, device.allocator);
      if (!module.ok()) {
        EXPECT_FALSE(module.status().message().empty());
        continue;
      }
      for (const auto& kernel : (*module)->kernels()) (void)Prepare(*kernel).ok();
    }
  }
}

TEST(Parser, DamagedTextEnds) {
  const std::string text = ReadPtx("basic.ptx");
  std::mt19937_64 random(5);
  const char kCharacters[] = "{}()[]<>,;:.%@!+-0123456789abcdefrpu\n\"";
  for (int round = 0; round < 300; ++round) {
    std::string damaged = text.substr(0, text.size());
    for (int i = 0; i < 1 + round % 4; ++i)
      damaged[random() % damaged.size()] = kCharacters[random() % (sizeof(kCharacters) - 1)];
    if (round % 3 == 0) damaged.erase(random() % damaged.size(), random() % 200);
    TestDevice device;
    Result<std::unique_ptr<Module>> module = Module::Compile({damaged}, device.allocator);
    if (!module.ok()) continue;
    for (const auto& kernel : (*module)->kernels()) (void)Prepare(*kernel).ok();
  }
}

TEST(Parser, AKernelSaysByWhichParameterItOccupiesTheDevice) {
  TestDevice device;
  auto told = [&](const std::string& text) {
    Result<std::unique_ptr<Module>> module = Module::Compile({kHead + text}, device.allocator);
    return module.ok() ? std::to_string((*module)->kernels()[0]->info().duration_parameter) : module.status().message();
  };
  EXPECT_EQ(told(".entry k(.param .u64 p, .param .u32 us)\n.pragma \"tessera_us us\";\n{ ret; }"), "1");
  EXPECT_EQ(told(".entry k(.param .u64 us)\n{ .pragma \"nounroll\", \" tessera_us  us \"; ret; }"), "0");
  EXPECT_EQ(told(".entry k(.param .u64 us)\n.pragma \"tessera_usual us\";\n{ .pragma \"nounroll\"; ret; }"), "-1");
  for (const char* text :
       {".entry k(.param .u32 us)\n.pragma \"tessera_us m\";\n{ ret; }",
        ".entry k(.param .f32 m)\n.pragma \"tessera_us m\";\n{ ret; }",
        ".entry k(.param .u32 m[2])\n.pragma \"tessera_us m\";\n{ ret; }",
        ".func k(.param .u32 m)\n.pragma \"tessera_us m\";\n{ ret; }", ".global .u32 m;\n.pragma \"tessera_us m\";\n"}) {
    EXPECT_EQ(told(text),
              "ptx line 5: pragma tessera_us names 'm', which is no .u32 or .u64 parameter of a kernel that it stands in")
        << text;
  }
  EXPECT_EQ(told(".entry k()\n{ .pragma \"tessera_us\"; ret; }").substr(0, 12), "ptx line 5: ");
}

TEST(Parser, ErrorsNameTheLine) {
  TestDevice device;
  auto message = [&](const std::string& text) {
    Result<std::unique_ptr<Module>> module = Module::Compile({text}, device.allocator);
    return module.ok() ? std::string("ok") : module.status().message();
  };
  EXPECT_EQ(message(std::string(kHead) + ".nonsense x;\n"), "ptx line 4: directive '.nonsense' is not known to the emulator");
  EXPECT_EQ(message(std::string(kHead) + ".global .u32 x = ;\n"), "ptx line 4: a value is expected, not ';'");
  EXPECT_EQ(message(std::string(kHead) + ".entry k()\n{\n.reg .b32 %r<2>;\nadd.u33 %r1, %r1, 1;\nret;\n}\n"),
            "ptx line 7: there is no type '.u33' ('add.u33')");
  EXPECT_EQ(message(""), "ptx line 1: the text has no .version directive");
  EXPECT_EQ(message(std::string(kHead) + ".global .u64 x = nothing;\n"),
            "ptx line 4: an initialiser names 'nothing', which has no address in global memory");
  EXPECT_NE(message(std::string(kHead) + ".global .b8 x[99999999999];\n").find("ptx line 4"), std::string::npos);
  EXPECT_EQ(device.memory.count(), 0u);
}

TEST(Parser, UnknownInstructionFailsOnlyItsKernel) {
  TestDevice device;
  auto module =
      CompileText(device, std::string(kHead) +
                              ".visible .entry good()\n{\nret;\n}\n"
                              ".visible .entry bad()\n{\n.reg .b32 %r<3>;\n\tfoo.bar.b32 %r1, %r2;\nret;\n}\n"
                              ".visible .entry modified()\n{\n.reg .b32 %r<3>;\nadd.strange.u32 %r1, %r2, 1;\nret;\n}\n");
  ASSERT_NE(module, nullptr);
  EXPECT_RUNS(device.Run(*module, "good", {1}, {1}, 0));
  const LaunchResult bad = device.Run(*module, "bad", {1}, {1}, 0);
  EXPECT_EQ(bad.error, LaunchError::kUnsupported);
  EXPECT_NE(bad.message.find("ptx line 11: instruction 'foo.bar.b32' is not known to the emulator"), std::string::npos)
      << bad.message;
  EXPECT_NE(device.Run(*module, "modified", {1}, {1}, 0).message.find("'add.strange.u32' is not known"), std::string::npos);
}

TEST(Parser, ScopesAndLabels) {
  TestDevice device;
  auto module = CompileText(device, Kernel(R"(
    mov.u32 %r1, 1;
    { .reg .b32 %r1; mov.u32 %r1, 77; { .reg .pred again; setp.eq.u32 again, %r1, 77; @again bra DONE; mov.u32 %r1, 5; DONE: add.u32 %r2, %r1, 1; } }
    { mov.u32 %r3, 0; LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 4; @%p1 bra LOOP; }
    { mov.u32 %r4, 0; LOOP: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 6; @%p1 bra LOOP; }
    st.global.v4.u32 [%q0], {%r1, %r2, %r3, %r4};)"));
  ASSERT_NE(module, nullptr);
  auto* out = device.Zeros<uint32_t>(4);
  EXPECT_RUNS(device.Run(*module, "k", {1}, {1}, 0, out));
  EXPECT_EQ(out[0], 1u);
  EXPECT_EQ(out[1], 78u);
  EXPECT_EQ(out[2], 4u);
  EXPECT_EQ(out[3], 6u);
}

// In time that grows with the text: where each use looked through all labels, this took a minute and more.
TEST(Parser, AHundredThousandLabels) {
  TestDevice device;
  std::string body = "mov.u32 %r1, 0;\nsetp.ne.u32 %p1, %r1, 0;\n";
  for (int i = 0; i < 100'000; ++i) {
    const std::string label = "L" + std::to_string(i);
    body += label + ": add.u32 %r1, %r1, 1;\n@%p1 bra " + label + ";\n";
  }
  auto module = CompileText(device, Kernel(body + "st.global.u32 [%q0], %r1;"));
  ASSERT_NE(module, nullptr);
  auto* out = device.Zeros<uint32_t>(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_RUNS(device.Run(*module, "k", {1}, {1}, 0, out));
  EXPECT_EQ(out[0], 100'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Parser, ConstantsAreNoMoreThanADeviceHasRoomFor) {
  TestDevice device;
  const auto message = [&](const std::vector<std::string_view>& texts) {
    Result<std::unique_ptr<Module>> module = Module::Compile(texts, device.allocator);
    return module.ok() ? std::string("ok") : module.status().message();
  };
  const auto text = [](const std::string& variables) { return std::string(kHead) + variables; };
  EXPECT_EQ(message({text(".const .b8 c[65536];\n")}), "ok");
  EXPECT_EQ(message({text(".const .align 4 .b8 c[65537];\n")}),
            "ptx line 4: with 'c' the module has more than 65536 bytes of constant memory");
  EXPECT_NE(message({text(".const .b8 a;\n.const .align 16 .b8 b[65536];\n")}), "ok");
  EXPECT_NE(message({text(".const .b8 a[40000];\n.entry k()\n{\n.const .b8 b[40000];\nret;\n}\n")}), "ok");
  EXPECT_EQ(message({text(".global .b8 g[100000];\n.extern .const .b8 c[40000];\n"), text(".visible .const .b8 c[40000];\n")}),
            "ok");
  EXPECT_NE(message({text(".visible .const .b8 a[40000];\n"), text(".visible .const .b8 c[40000];\n")}), "ok");
}

TEST(Linking, ResolvesAcrossTexts) {
  TestDevice device;
  const std::string first =
      std::string(kHead) +
      ".extern .func (.param .b32 r) triple(.param .b32 a);\n.extern .global .align 4 .u32 shared_value;\n"
      ".global .u32 own = 1;\n.visible .global .u64 pointer = generic(shared_value)+4;\n"
      ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<5>; .reg .b64 %q<5>;\nld.param.u64 %q1, [p];\n"
      "{ .param .b32 a; st.param.b32 [a], 14; .param .b32 r; call (r), triple, (a); ld.param.b32 %r1, [r]; }\n"
      "ld.global.u32 %r2, [shared_value];\nld.global.u32 %r3, [own];\nld.global.u64 %q2, [pointer];\nld.u32 %r4, [%q2];\n"
      "st.global.v4.u32 [%q1], {%r1, %r2, %r3, %r4};\nret;\n}\n";
  const std::string second = std::string(kHead) +
                             ".visible .global .align 4 .u32 shared_value[2] = {9, 10};\n.global .u32 own = 100;\n"
                             ".visible .func (.param .b32 r) triple(.param .b32 a)\n{\n.reg .b32 %r<4>;\nld.param.u32 %r1, "
                             "[a];\nmul.lo.u32 %r2, %r1, 3;\n"
                             "ld.global.u32 %r3, [own];\nadd.u32 %r2, %r2, %r3;\nst.param.b32 [r], %r2;\nret;\n}\n";
  Result<std::unique_ptr<Module>> module = Module::Compile({first, second}, device.allocator);
  ASSERT_TRUE(module.ok()) << module.status().message();
  auto* out = device.Zeros<uint32_t>(4);
  EXPECT_RUNS(device.Run(**module, "k", {1}, {1}, 0, out));
  EXPECT_EQ(out[0], 142u);
  EXPECT_EQ(out[1], 9u);
  EXPECT_EQ(out[2], 1u);
  EXPECT_EQ(out[3], 10u);
  EXPECT_FALSE(Module::Compile({first}, device.allocator).ok());
  EXPECT_FALSE(Module::Compile({first, second, second}, device.allocator).ok());
}

}  // namespace
}  // namespace tessera::emulator
