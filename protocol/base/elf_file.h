// What an ELF file says about itself and about the libraries it wants: for telling libraries apart, and for finding out which one
// a program would load. Reads the file, runs nothing of it; a damaged file is an error, never a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

struct ElfFile {
  struct Note {
    std::string name;
    uint32_t type = 0;
    std::vector<std::byte> description;
  };

  uint16_t machine = 0;      // EM_X86_64
  bool has_loader = false;   // a program with an interpreter (PT_INTERP): the loader finds its libraries
  std::string search_first;  // DT_RPATH: looked through before LD_LIBRARY_PATH; empty where there is a DT_RUNPATH
  std::string search_last;   // DT_RUNPATH: after it. Both as in the file, $ORIGIN and all
  std::vector<Note> notes;

  // kNotFound when it cannot be opened, kInvalidArgument when it is no 64-bit ELF file or a damaged one.
  static Result<ElfFile> Read(const std::string& path);
};

}  // namespace tessera
