#include "server/code_image/cubin.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "server/code_image/bytes.h"

namespace tessera::code_image {
namespace {

constexpr uint8_t kEntryFlag = 0x10;             // st_other: STO_CUDA_ENTRY
constexpr uint8_t kInfoSizedValue = 4;           // a 16-bit length and that many bytes
constexpr uint8_t kAttributeParameter = 0x17;    // one parameter
constexpr uint8_t kAttributeMaxThreads = 0x05;   // three words
constexpr uint8_t kAttributeRegisters = 0x2F;    // in .nv.info: symbol, count
constexpr uint32_t kReservedSharedBytes = 1024;  // the system's share of each block, from sm_90 part of .nv.shared.KERNEL
constexpr uint32_t kSharedMemoryOfDebugger = 0x7000000A;  // sh_type of .nv_debug.shared: has a size but no bytes in the file
constexpr uint64_t kMaxSections = 1 << 20;

Status BadCubin(const char* what) { return Status(StatusCode::kInvalidArgument, fmt::format("a cubin {}", what)); }

struct Section {
  Elf64_Shdr header;
  std::string_view name;
};

struct File {
  Bytes bytes;
  Elf64_Ehdr header;
  std::vector<Section> sections;
};

Status ReadHeader(Bytes bytes, Elf64_Ehdr* header) {
  if (!bytes.Read(0, header) || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return BadCubin("has no ELF header");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return Status(StatusCode::kUnsupported, "a cubin is not a 64-bit little-endian ELF file");
  }
  if (header->e_shnum != 0 && header->e_shentsize != sizeof(Elf64_Shdr))
    return BadCubin("has section headers of an unknown size");
  return Status::Ok();
}

Result<File> ReadSections(std::span<const std::byte> data) {
  File file{Bytes(data), {}, {}};
  RETURN_IF_ERROR(ReadHeader(file.bytes, &file.header));
  uint64_t count = file.header.e_shnum, names = file.header.e_shstrndx;
  if (count == 0 && file.header.e_shoff != 0) {  // more than fit the header: the first section says how many
    Elf64_Shdr first;
    if (!file.bytes.Read(file.header.e_shoff, &first)) return BadCubin("has its section headers outside the file");
    count = first.sh_size;
    if (names == SHN_XINDEX) names = first.sh_link;
  }
  if (count > kMaxSections || !file.bytes.Contains(file.header.e_shoff, count * sizeof(Elf64_Shdr))) {
    return BadCubin("has its section headers outside the file");
  }
  file.sections.resize(count);
  for (uint64_t i = 0; i < count; ++i) file.bytes.Read(file.header.e_shoff + i * sizeof(Elf64_Shdr), &file.sections[i].header);
  if (count == 0) return file;
  if (names >= count) return BadCubin("has no section names");
  const Elf64_Shdr& table = file.sections[names].header;
  const std::span<const std::byte> text = file.bytes.Slice(table.sh_offset, table.sh_size);
  for (Section& section : file.sections) {
    if (!Bytes(text).String(section.header.sh_name, &section.name))
      return BadCubin("has a section whose name lies outside the table");
    const bool has_bytes = section.header.sh_type != SHT_NULL && section.header.sh_type != SHT_NOBITS &&
                           section.header.sh_type != kSharedMemoryOfDebugger;
    if (has_bytes && !file.bytes.Contains(section.header.sh_offset, section.header.sh_size)) {
      return BadCubin("has a section that lies outside the file");
    }
  }
  return file;
}

// .nv.info.KERNEL: records {u8 format, u8 attribute, u16 value or length}.
Status ReadInfo(Bytes info, CubinKernel* kernel) {
  struct Found {
    uint16_t ordinal;
    CubinParameter parameter;
  };
  std::vector<Found> found;
  uint64_t at = 0;
  while (at + 4 <= info.size()) {
    uint8_t format = 0, attribute = 0;
    uint16_t length = 0;
    info.Read(at, &format);
    info.Read(at + 1, &attribute);
    info.Read(at + 2, &length);
    at += 4;
    if (format != kInfoSizedValue) continue;
    if (!info.Contains(at, length)) return BadCubin("has an attribute that lies outside its section");
    if (attribute == kAttributeParameter && length >= 12) {
      uint16_t ordinal = 0, offset = 0;
      uint32_t size = 0;
      info.Read(at + 4, &ordinal);
      info.Read(at + 6, &offset);
      info.Read(at + 8, &size);
      found.push_back({ordinal, {offset, size >> 18}});
    } else if (attribute == kAttributeMaxThreads && length >= 12) {
      uint32_t x = 0, y = 0, z = 0;
      info.Read(at, &x);
      info.Read(at + 4, &y);
      info.Read(at + 8, &z);
      kernel->max_threads_per_block = static_cast<uint32_t>(
          std::min<uint64_t>(std::min<uint64_t>(x, 1024) * std::min<uint64_t>(y, 1024) * std::min<uint64_t>(z, 1024), 1024));
    }
    at += length;
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.ordinal < b.ordinal; });
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].ordinal != i) return BadCubin("has parameters whose numbers have gaps");
    kernel->parameters.push_back(found[i].parameter);
  }
  return Status::Ok();
}

const Section* FindSection(const File& file, const std::string& name) {
  for (const Section& section : file.sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

uint32_t RegisterCount(const File& file, uint32_t symbol) {
  const Section* info = FindSection(file, ".nv.info");
  if (info == nullptr || info->header.sh_type == SHT_NOBITS) return 0;
  const Bytes bytes(file.bytes.Slice(info->header.sh_offset, info->header.sh_size));
  for (uint64_t at = 0; at + 4 <= bytes.size();) {
    uint8_t format = 0, attribute = 0;
    uint16_t length = 0;
    bytes.Read(at, &format);
    bytes.Read(at + 1, &attribute);
    bytes.Read(at + 2, &length);
    at += 4;
    if (format != kInfoSizedValue) continue;
    uint32_t which = 0, count = 0;
    if (attribute == kAttributeRegisters && length >= 8 && bytes.Read(at, &which) && bytes.Read(at + 4, &count) &&
        which == symbol)
      return count;
    at += length;
  }
  return 0;
}

Status AddKernel(const File& file, std::string_view name, uint32_t symbol, CubinEntry* cubin) {
  CubinKernel kernel;
  kernel.name = std::string(name);
  kernel.register_count = RegisterCount(file, symbol);
  if (const Section* info = FindSection(file, ".nv.info." + kernel.name); info != nullptr && info->header.sh_type != SHT_NOBITS) {
    RETURN_IF_ERROR(ReadInfo(Bytes(file.bytes.Slice(info->header.sh_offset, info->header.sh_size)), &kernel));
  }
  if (const Section* shared = FindSection(file, ".nv.shared." + kernel.name)) {
    const uint64_t reserved = cubin->sm >= 90 && shared->header.sh_size >= kReservedSharedBytes ? kReservedSharedBytes : 0;
    kernel.static_shared_bytes = static_cast<uint32_t>(std::min<uint64_t>(shared->header.sh_size - reserved, UINT32_MAX));
  }
  cubin->kernels.push_back(std::move(kernel));
  return Status::Ok();
}

Status ReadSymbols(const File& file, const Elf64_Shdr& table, CubinEntry* cubin) {
  if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= file.sections.size())
    return BadCubin("has a symbol table of an unknown form");
  const Elf64_Shdr& strings = file.sections[table.sh_link].header;
  const Bytes names(file.bytes.Slice(strings.sh_offset, strings.sh_size));
  for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
    Elf64_Sym symbol;
    std::string_view name;
    if (!file.bytes.Read(table.sh_offset + i * sizeof(Elf64_Sym), &symbol)) return BadCubin("has a symbol outside the file");
    if (symbol.st_name == 0 || symbol.st_shndx >= file.sections.size() || symbol.st_shndx == SHN_UNDEF) continue;
    if (!names.String(symbol.st_name, &name)) return BadCubin("has a symbol whose name lies outside the table");
    const Section& section = file.sections[symbol.st_shndx];
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_FUNC && (symbol.st_other & kEntryFlag) != 0) {
      RETURN_IF_ERROR(AddKernel(file, name, static_cast<uint32_t>(i), cubin));
    } else if (type == STT_OBJECT && (section.name.starts_with(".nv.global") || section.name.starts_with(".nv.constant"))) {
      cubin->variables.push_back({std::string(name), symbol.st_size, section.name.starts_with(".nv.constant")});
    }
  }
  return Status::Ok();
}

}  // namespace

Result<uint64_t> CubinSize(std::span<const std::byte> data) {
  Result<File> file = ReadSections(data);
  if (!file.ok()) return file.status();
  uint64_t end = std::max<uint64_t>(sizeof(Elf64_Ehdr), file->header.e_shoff + file->sections.size() * sizeof(Elf64_Shdr));
  if (file->header.e_phnum != 0) {
    const uint64_t programs = static_cast<uint64_t>(file->header.e_phnum) * file->header.e_phentsize;
    if (!file->bytes.Contains(file->header.e_phoff, programs)) return BadCubin("has its program headers outside the file");
    end = std::max(end, file->header.e_phoff + programs);
  }
  for (const Section& section : file->sections) {
    if (section.header.sh_type != SHT_NOBITS && section.header.sh_type != SHT_NULL)
      end = std::max(end, section.header.sh_offset + section.header.sh_size);
  }
  return end;
}

Result<CubinEntry> DecodeCubin(std::span<const std::byte> data, uint32_t sm) {
  Result<File> file = ReadSections(data);
  if (!file.ok()) return file.status();
  CubinEntry cubin;
  cubin.size_bytes = data.size();
  // The architecture sits in the second byte of the flags since ABI version 8, in the first before.
  const uint32_t flags = file->header.e_flags;
  const uint32_t own = file->header.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xFF : flags & 0xFF;
  cubin.sm = sm != 0 ? sm : own;
  for (const Section& section : file->sections) {
    if (section.header.sh_type == SHT_SYMTAB) RETURN_IF_ERROR(ReadSymbols(*file, section.header, &cubin));
  }
  return cubin;
}

}  // namespace tessera::code_image
