#include "server/driver/stub_file.h"

#include "protocol/base/elf_file.h"
#include "protocol/runtime/stub_note.h"

namespace tessera {

bool IsStubFile(const std::string& path) {
  Result<ElfFile> file = ElfFile::Read(path);
  if (!file.ok()) return false;
  for (const ElfFile::Note& note : file->notes) {
    if (note.type == kStubNoteType && note.name == kStubNoteName) return true;
  }
  return false;
}

}  // namespace tessera
