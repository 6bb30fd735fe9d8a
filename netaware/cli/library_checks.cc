#include "netaware/cli/library_checks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "netaware/cli/install_layout.h"
#include "netaware/cli/program_file.h"
#include "netaware/cli/program_reach.h"
#include "protocol/base/elf_file.h"
#include "protocol/runtime/stub_note.h"
#include "protocol/wire/handshake.h"

namespace tessera {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kInstallAgain = "install Tessera again, all parts of one release";

// The release note in the ELF file of a Tessera library; nullopt for any other file.
std::optional<StubNoteContent> ReleaseOf(const std::string& library) {
  Result<ElfFile> file = ElfFile::Read(library);
  if (!file.ok()) return std::nullopt;
  for (const ElfFile::Note& note : file->notes) {
    if (note.type != kStubNoteType || note.name != kStubNoteName) continue;
    StubNoteContent content{};
    std::memcpy(&content, note.description.data(), std::min(note.description.size(), sizeof(content)));
    content.version[sizeof(content.version) - 1] = '\0';
    return content;
  }
  return std::nullopt;
}

bool IsOfThisRelease(const StubNoteContent& release) {
  return release.wire_version == kWireVersion && std::string_view(release.version) == TESSERA_VERSION;
}

// The library in the first directory of a list ("a:b") that has it; empty if none has it. $ORIGIN is the directory of
// `program`.
std::string FindIn(const std::string& list, const std::string& program) {
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find_first_of(":;", start), list.size());
    std::string directory = list.substr(start, end - start);
    start = end + 1;
    for (const std::string& origin : {std::string("$ORIGIN"), std::string("${ORIGIN}")}) {
      const size_t at = directory.find(origin);
      if (at != std::string::npos) directory.replace(at, origin.size(), std::filesystem::path(program).parent_path().string());
    }
    const std::string library = (directory.empty() ? "." : directory) + "/" + kLibrary;
    if (access(library.c_str(), F_OK) == 0) return library;
  }
  return "";
}

// The library in the loader's cache (/etc/ld.so.cache); empty if there is none, or if ldconfig cannot be run.
std::string FindInCache() {
  FILE* output = popen("/sbin/ldconfig -p 2>/dev/null", "r");
  if (output == nullptr) return "";
  std::string found;
  char line[1024];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    const char* arrow = std::strstr(line, "=> ");
    if (std::strstr(line, kLibrary) == nullptr || std::strstr(line, "x86-64") == nullptr || arrow == nullptr || !found.empty())
      continue;
    found = arrow + 3;
    found.resize(found.find_last_not_of('\n') + 1);
  }
  pclose(output);
  return found;
}

// `how` describes the way in which the loader finds it: "LD_LIBRARY_PATH leads to".
Finding Describe(const std::string& how, const std::string& library, const std::string& advice) {
  const std::optional<StubNoteContent> release = ReleaseOf(library);
  if (!release) return {Grade::kNote, "library path", how + " " + library + ", which is not Tessera's", advice};
  if (IsOfThisRelease(*release)) return {Grade::kGood, "library path", how + " Tessera's " + library, ""};
  return {Grade::kProblem, "library path",
          fmt::format("{} {}, which is of another release of Tessera: {} with wire version {}; this is {} with {}", how, library,
                      release->version, release->wire_version, TESSERA_VERSION, kWireVersion),
          kInstallAgain};
}

Finding Problem(const std::string& text, const std::string& advice) { return {Grade::kProblem, "program", text, advice}; }

}  // namespace

std::vector<Finding> CheckClientLibraries(const InstallLayout& layout) {
  std::vector<Finding> findings;
  for (const char* name : {kLibrary, "libnvidia-ml.so.1"}) {
    const std::string path = layout.client_dir + "/" + name;
    if (access(path.c_str(), R_OK) != 0) {
      findings.push_back({Grade::kProblem, "client library", path + " cannot be read: " + std::strerror(errno),
                          "install Tessera again, or make the file readable"});
    } else if (const std::optional<StubNoteContent> release = ReleaseOf(path); !release) {
      findings.push_back({Grade::kProblem, "client library", path + " is not Tessera's, or damaged", kInstallAgain});
    } else {
      findings.push_back({IsOfThisRelease(*release) ? Grade::kGood : Grade::kProblem, "client library",
                          fmt::format("{}, {}, wire version {}", path, release->version, release->wire_version),
                          IsOfThisRelease(*release) ? "" : kInstallAgain});
    }
  }
  return findings;
}

std::vector<Finding> CheckLibraryPath(const InstallLayout& layout) {
  std::vector<Finding> findings;
  const char* preloaded = getenv("LD_PRELOAD");
  if (preloaded != nullptr && std::strstr(preloaded, "libcuda.so") != nullptr) {
    findings.push_back({Grade::kProblem, "library path", std::string("LD_PRELOAD has a libcuda.so of its own: ") + preloaded,
                        "unset LD_PRELOAD: what is in it comes before everything that 'tessera run' sets"});
  }
  const char* variable = getenv("LD_LIBRARY_PATH");
  std::string library = FindIn(variable == nullptr ? "" : variable, "");
  const char* const advice = "start programs with 'tessera run', which puts its own in front";
  if (!library.empty()) {
    findings.push_back(Describe("LD_LIBRARY_PATH leads to", library, advice));
  } else if (library = FindInCache(); !library.empty()) {
    findings.push_back(Describe("the loader's cache has", library, advice));
  } else {
    findings.push_back({Grade::kGood, "library path",
                        fmt::format("no {} in LD_LIBRARY_PATH or the loader's cache; 'tessera run' sets it", kLibrary), ""});
  }
  return findings;
}

std::vector<Finding> CheckProgram(const InstallLayout& layout, const std::string& name) {
  const std::string found = FindProgram(name);
  std::string file = found;
  if (file.empty()) return {Problem(name + " does not exist", "check its name, or install it")};
  const std::optional<MachineCode> code = MachineCode::Of(file);
  if (!code) return {Problem(file + " is neither a program nor a script that names its interpreter", "check the file")};
  file = code->file;
  if (const std::optional<Unreached> why = WhyUnreached(*code)) return {Problem(why->text, why->advice)};
  Result<ElfFile> elf = ElfFile::Read(file);
  if (!elf.ok()) return {Problem(file + " is damaged", "check the file, or install it again")};
  if (const std::string library = FindIn(elf->search_first, file); !library.empty() && !ReleaseOf(library)) {
    return {Problem(file + " has an RPATH, which leads to " + library + " before LD_LIBRARY_PATH is looked at",
                    "make it a RUNPATH: patchelf --set-rpath '" + elf->search_first + "' " + file)};
  }
  std::string text = (file == found ? file : found + " leads to " + file + ", which") + " gets " + layout.client_dir + "/" +
                     kLibrary + " from 'tessera run'";
  if (const std::string library = FindIn(elf->search_last, file); !library.empty())
    text += "; by itself its RUNPATH leads to " + library;
  const bool is_version_shim = found.find("/shims/") != std::string::npos;
  return {{is_version_shim ? Grade::kNote : Grade::kGood, "program", text,
           is_version_shim ? "it is a shim that chooses a program when it starts: look at that one ('pyenv which')" : ""}};
}

}  // namespace tessera
