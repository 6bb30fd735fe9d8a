#include "server/driver/stub_file.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "protocol/codegen/stub_note.h"

namespace tessera {
namespace {

// More than any library has; keeps a damaged file from asking for much memory.
constexpr size_t kNoteBytesMax = 1 << 16;

bool ReadAt(int fd, void* data, size_t size, uint64_t offset) {
  return pread(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

size_t Padded(size_t size) { return (size + 3) & ~size_t{3}; }

bool HasStubNote(const std::vector<char>& notes) {
  size_t at = 0;
  while (notes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data() + at, sizeof(header));
    at += sizeof(header);
    const size_t content = Padded(header.n_namesz) + Padded(header.n_descsz);
    if (header.n_namesz > kNoteBytesMax || header.n_descsz > kNoteBytesMax || content > notes.size() - at) return false;
    if (header.n_type == kStubNoteType && header.n_namesz == sizeof(kStubNoteName) &&
        std::memcmp(notes.data() + at, kStubNoteName, sizeof(kStubNoteName)) == 0) {
      return true;
    }
    at += content;
  }
  return false;
}

}  // namespace

bool IsStubFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return false;
  Elf64_Ehdr header;
  if (!ReadAt(fd.get(), &header, sizeof(header), 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(fd.get(), &segment, sizeof(segment), header.e_phoff + uint64_t(i) * header.e_phentsize)) return false;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kNoteBytesMax) continue;
    std::vector<char> notes(segment.p_filesz);
    if (ReadAt(fd.get(), notes.data(), notes.size(), segment.p_offset) && HasStubNote(notes)) return true;
  }
  return false;
}

}  // namespace tessera
