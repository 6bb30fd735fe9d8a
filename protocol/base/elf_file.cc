#include "protocol/base/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

// More than any file has; keeps a damaged one from asking for much memory.
constexpr size_t kNoteBytesMax = 1 << 16;
constexpr size_t kDynamicBytesMax = 1 << 20;
constexpr size_t kPathBytesMax = 1 << 14;

size_t Padded(size_t size) { return (size + 3) & ~size_t{3}; }

class Reader {
 public:
  explicit Reader(int fd) : fd_(fd) {}

  bool ReadAt(void* data, size_t size, uint64_t offset) const {
    return pread(fd_, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }

  bool ReadSegments() {
    if (!ReadAt(&header_, sizeof(header_), 0) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      return false;
    }
    segments_.resize(header_.e_phnum);
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (!ReadAt(&segments_[i], sizeof(Elf64_Phdr), header_.e_phoff + i * header_.e_phentsize)) return false;
    }
    return true;
  }

  bool ReadNotes(const Elf64_Phdr& segment, std::vector<ElfFile::Note>* notes) const {
    if (segment.p_filesz > kNoteBytesMax) return true;  // none of those that anybody asks for
    std::vector<std::byte> bytes(segment.p_filesz);
    if (!ReadAt(bytes.data(), bytes.size(), segment.p_offset)) return false;
    for (size_t at = 0; bytes.size() - at >= sizeof(Elf64_Nhdr);) {
      Elf64_Nhdr note;
      std::memcpy(&note, bytes.data() + at, sizeof(note));
      at += sizeof(note);
      if (note.n_namesz > kNoteBytesMax || note.n_descsz > kNoteBytesMax) break;  // of a kind that is laid out in another way
      const size_t description = Padded(note.n_namesz);
      if (description + Padded(note.n_descsz) > bytes.size() - at) break;
      const char* name = reinterpret_cast<const char*>(bytes.data() + at);
      const std::byte* content = bytes.data() + at + description;
      notes->push_back({std::string(name, strnlen(name, note.n_namesz)), note.n_type, {content, content + note.n_descsz}});
      at += description + Padded(note.n_descsz);
    }
    return true;
  }

  bool ReadDynamic(const Elf64_Phdr& segment, ElfFile* file) const {
    if (segment.p_filesz > kDynamicBytesMax) return false;
    std::vector<Elf64_Dyn> entries(segment.p_filesz / sizeof(Elf64_Dyn));
    if (!ReadAt(entries.data(), entries.size() * sizeof(Elf64_Dyn), segment.p_offset)) return false;
    uint64_t strings = 0;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_STRTAB) strings = OffsetOf(entry.d_un.d_ptr);
    }
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_RPATH) file->search_first = StringAt(strings + entry.d_un.d_val);
      if (entry.d_tag == DT_RUNPATH) file->search_last = StringAt(strings + entry.d_un.d_val);
    }
    if (!file->search_last.empty()) file->search_first.clear();  // as the loader does
    return true;
  }

  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  uint16_t machine() const { return header_.e_machine; }

 private:
  // Where in the file that lies which is loaded at this address.
  uint64_t OffsetOf(uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
        return address - segment.p_vaddr + segment.p_offset;
      }
    }
    return 0;
  }

  std::string StringAt(uint64_t offset) const {
    std::string text(kPathBytesMax, '\0');
    const ssize_t got = pread(fd_, text.data(), text.size() - 1, static_cast<off_t>(offset));
    return got <= 0 ? "" : std::string(text.c_str());
  }

  const int fd_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace

Result<ElfFile> ElfFile::Read(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Status(StatusCode::kNotFound, path + ": " + std::strerror(errno));
  const Status damaged(StatusCode::kInvalidArgument, path + " is no 64-bit ELF file, or a damaged one");
  Reader reader(fd.get());
  if (!reader.ReadSegments()) return damaged;
  ElfFile file;
  file.machine = reader.machine();
  for (const Elf64_Phdr& segment : reader.segments()) {
    if (segment.p_type == PT_INTERP) file.has_loader = true;
    if (segment.p_type == PT_NOTE && !reader.ReadNotes(segment, &file.notes)) return damaged;
    if (segment.p_type == PT_DYNAMIC && !reader.ReadDynamic(segment, &file)) return damaged;
  }
  return file;
}

}  // namespace tessera
