#include "netaware/cli/program_reach.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

class ProgramReachTest : public testing::Test {
 protected:
  ProgramReachTest() : directory_(testing::TempDir() + "/program_reach_" + std::to_string(getpid())) {
    std::filesystem::create_directories(directory_);
  }
  ~ProgramReachTest() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), 0755);
    return path;
  }
  // A program's headers, with one of this type.
  static std::string Elf(unsigned char bits, uint16_t machine, uint32_t segment) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = bits;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = machine;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    Elf64_Phdr program{};
    program.p_type = segment;
    std::string text(sizeof(header) + sizeof(program), '\0');
    std::memcpy(text.data(), &header, sizeof(header));
    std::memcpy(text.data() + sizeof(header), &program, sizeof(program));
    return text;
  }
  static std::string Good() { return Elf(ELFCLASS64, EM_X86_64, PT_INTERP); }
  static std::string Why(const std::string& file) {
    const std::optional<MachineCode> code = MachineCode::Of(file);
    if (!code) return "no machine code";
    const std::optional<Unreached> why = WhyUnreached(*code);
    return why ? why->text : "";
  }
  const std::string directory_;
};

TEST_F(ProgramReachTest, ProgramsThatLoadLibrariesAreReached) { EXPECT_EQ(Why(Write("a", Good())), ""); }

TEST_F(ProgramReachTest, OthersAreNamed) {
  EXPECT_NE(Why(Write("a", Elf(ELFCLASS64, EM_X86_64, PT_LOAD))).find("linked statically"), std::string::npos);
  EXPECT_NE(Why(Write("b", Elf(ELFCLASS32, EM_386, PT_INTERP))).find("is a 32-bit program"), std::string::npos);
  EXPECT_NE(Why(Write("c", Elf(ELFCLASS64, EM_AARCH64, PT_INTERP))).find("not for this kind of machine"), std::string::npos);
  EXPECT_NE(Why(Write("d", ELFMAG)).find("damaged"), std::string::npos);
}

TEST_F(ProgramReachTest, RightsOfItsOwnAreNamed) {
  const std::string path = Write("a", Good());
  MachineCode code = *MachineCode::Of(path);
  code.mode |= S_ISUID;
  EXPECT_FALSE(WhyUnreached(code));  // this user's own
  code.user = geteuid() + 1;
  EXPECT_NE(WhyUnreached(code)->text.find("runs with rights of its own"), std::string::npos);
  code.mode &= ~static_cast<mode_t>(S_ISUID);
  EXPECT_FALSE(WhyUnreached(code));
  code.rights = true;
  EXPECT_TRUE(WhyUnreached(code));
}

TEST_F(ProgramReachTest, OneThatMayNotBeReadHasItsRights) {
  MachineCode code = {.file = "/usr/bin/su", .head = "", .mode = S_IFREG | S_ISUID | 0711, .user = geteuid() + 1};
  EXPECT_NE(WhyUnreached(code)->text.find("runs with rights of its own"), std::string::npos);
  code.user = geteuid();
  EXPECT_FALSE(WhyUnreached(code));
}

TEST_F(ProgramReachTest, ScriptsLeadToTheirInterpreter) {
  const std::string python = Write("python", Good());
  const std::string wrapped = Write("wrapped", "#!" + python + "\n");
  EXPECT_EQ(MachineCode::Of(Write("a", "#!" + python + " -u\nprint()\n"))->file, python);
  EXPECT_EQ(MachineCode::Of(Write("b", "#!" + wrapped + "\n"))->file, python);
}

TEST_F(ProgramReachTest, ShimsLeadToWhatTheyStart) {
  const std::string python = Write("python", Good());
  EXPECT_EQ(MachineCode::Of(Write("a", "#!/bin/sh\nset -e\n  exec \"" + python + "\" \"$@\"\n"))->file, python);
  EXPECT_EQ(MachineCode::Of(Write("b", "#!/bin/sh\n'''exec' " + python + " \"$0\" \"$@\"\n' '''\nimport sys\n"))->file, python);
  // A command that is not clear counts as the shell's own code.
  for (const char* text : {"exec \"$PYTHON\"\n", "exec /nonexistent/python\n", "echo exec\n"})
    EXPECT_NE(MachineCode::Of(Write("c", std::string("#!/bin/sh\n") + text))->file, python);
  EXPECT_NE(MachineCode::Of(Write("d", "#!/bin/sh\nexec " + python + "\nexec " + python + "2\n"))->file, python);
}

TEST_F(ProgramReachTest, WhatLeadsNowhereIsNone) {
  EXPECT_EQ(Why(directory_), "no machine code");
  EXPECT_EQ(Why(Write("a", "text")), "no machine code");
  EXPECT_EQ(Why(Write("b", "#!/nonexistent/interpreter\n")), "no machine code");
  EXPECT_EQ(Why(Write("c", "#!" + directory_ + "/c\n")), "no machine code");
  EXPECT_EQ(Why(Write("d", "#!/bin/sh\nexec " + directory_ + "/d\n")).find("no machine"), std::string::npos);  // the shell
}

}  // namespace
}  // namespace tessera
