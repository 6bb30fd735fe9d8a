// What an ELF file says about itself and about the libraries it needs. Used to tell libraries apart, and to find out which one a
// program would load. Reads the file and runs nothing of it. A damaged file is an error, never a crash.
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
  bool has_loader = false;   // it has an interpreter (PT_INTERP): the loader finds its libraries
  std::string search_first;  // DT_RPATH: searched before LD_LIBRARY_PATH; empty if there is a DT_RUNPATH
  std::string search_last;   // DT_RUNPATH: searched after it. Both as in the file: $ORIGIN is not replaced
  std::vector<Note> notes;

  // kNotFound when it cannot be opened, kInvalidArgument when it is no 64-bit ELF file or a damaged one.
  static Result<ElfFile> Read(const std::string& path);
};

}  // namespace tessera
