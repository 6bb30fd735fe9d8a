#include "client-stub/code/image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kFatbinMagic = 0xBA55ED50;

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* data;
  const void* filename_or_list;
};

struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t payload_bytes;
};

Status TooLarge() { return Status(StatusCode::kResourceExhausted, "the image is larger than any that is forwarded (2 GiB)"); }

uint32_t MagicOf(const void* image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof(magic));
  return magic;
}

Result<std::span<const std::byte>> FatbinExtent(const void* image) {
  FatbinHeader header;
  std::memcpy(&header, image, sizeof(header));
  if (header.header_bytes < sizeof(header)) {
    return Status(StatusCode::kInvalidArgument, "the fatbin's header size is smaller than its header");
  }
  if (header.payload_bytes > kImageBytesMax) return TooLarge();
  return std::span(static_cast<const std::byte*>(image), header.header_bytes + header.payload_bytes);
}

// An ELF file ends with its last section, program segment or header table, whichever comes last.
Result<std::span<const std::byte>> ElfExtent(const void* image) {
  const auto* base = static_cast<const std::byte*>(image);
  Elf64_Ehdr header;
  std::memcpy(&header, base, sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Status(StatusCode::kInvalidArgument, "the cubin is not a 64-bit ELF file");
  }
  uint64_t end = header.e_ehsize;
  const auto extend = [&end](uint64_t offset, uint64_t bytes) {
    if (offset > kImageBytesMax || bytes > kImageBytesMax) return false;
    end = std::max(end, offset + bytes);
    return true;
  };
  if (!extend(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize) ||
      !extend(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize)) {
    return TooLarge();
  }
  for (unsigned i = 0; i < header.e_shnum && header.e_shentsize >= sizeof(Elf64_Shdr); ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, base + header.e_shoff + uint64_t{i} * header.e_shentsize, sizeof(section));
    if (section.sh_type != SHT_NOBITS && !extend(section.sh_offset, section.sh_size)) return TooLarge();
  }
  for (unsigned i = 0; i < header.e_phnum && header.e_phentsize >= sizeof(Elf64_Phdr); ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, base + header.e_phoff + uint64_t{i} * header.e_phentsize, sizeof(segment));
    if (!extend(segment.p_offset, segment.p_filesz)) return TooLarge();
  }
  if (end > kImageBytesMax) return TooLarge();
  return std::span(base, end);
}

Result<std::span<const std::byte>> BareExtent(const void* image) {
  const uint32_t magic = MagicOf(image);
  if (magic == kFatbinMagic) return FatbinExtent(image);
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) return ElfExtent(image);
  const auto* text = static_cast<const char*>(image);
  const size_t length = strnlen(text, kImageBytesMax);
  if (length == kImageBytesMax) return TooLarge();
  return std::span(static_cast<const std::byte*>(image), length + 1);
}

}  // namespace

Result<ImageParts> FindImageParts(const void* image) {
  ImageParts found;
  // PTX text may be shorter than a magic number: look at the first byte before reading four.
  const auto first = *static_cast<const unsigned char*>(image);
  if (first != (kWrapperMagic & 0xFF) || MagicOf(image) != kWrapperMagic) {
    if (first == '\0') {
      found.parts.push_back(std::span(static_cast<const std::byte*>(image), 1));
      return found;
    }
    Result<std::span<const std::byte>> extent = BareExtent(image);
    if (!extent.ok()) return extent.status();
    found.parts.push_back(*extent);
    return found;
  }
  Wrapper wrapper;
  std::memcpy(&wrapper, image, sizeof(wrapper));
  if (wrapper.data == nullptr || MagicOf(wrapper.data) != kFatbinMagic) {
    return Status(StatusCode::kInvalidArgument, "the fatbin wrapper does not point to a fatbin");
  }
  found.form = ImageForm::kWrapper;
  Result<std::span<const std::byte>> own = FatbinExtent(wrapper.data);
  if (!own.ok()) return own.status();
  found.parts.push_back(*own);
  if (wrapper.version < 2 || wrapper.filename_or_list == nullptr) return found;
  found.form = ImageForm::kPrelinked;
  const auto* list = static_cast<const void* const*>(wrapper.filename_or_list);
  for (size_t i = 0; list[i] != nullptr; ++i) {
    if (i == kImagePartsMax) return TooLarge();
    if (MagicOf(list[i]) != kFatbinMagic) {
      return Status(StatusCode::kInvalidArgument, "a prelinked member of the fatbin wrapper is not a fatbin");
    }
    Result<std::span<const std::byte>> member = FatbinExtent(list[i]);
    if (!member.ok()) return member.status();
    found.parts.push_back(*member);
  }
  return found;
}

}  // namespace tessera
