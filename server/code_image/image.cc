#include "server/code_image/image.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "server/code_image/bytes.h"
#include "server/code_image/cubin.h"
#include "server/code_image/fatbin.h"

namespace tessera::code_image {
namespace {

bool IsElf(std::span<const std::byte> bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

uint32_t Magic(std::span<const std::byte> bytes) {
  uint32_t magic = 0;
  Bytes(bytes).Read(0, &magic);
  return magic;
}

// PTX begins with blanks, comments and its .version directive.
bool LooksLikePtx(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t first = text.find_first_not_of(" \t\r\n\f\v");
  if (first == std::string_view::npos) return false;
  const std::string_view head = text.substr(first);
  return head.starts_with(".version") ||
         ((head.starts_with("//") || head.starts_with("/*")) && text.find(".version") != std::string_view::npos);
}

Status DecodePart(std::span<const std::byte> bytes, uint32_t part, uint32_t only_sm, uint64_t* budget, Image* image) {
  if (Magic(bytes) == kWrapperMagic) {
    return Status(StatusCode::kInvalidArgument, "a fatbin wrapper holds pointers: its members must be given one by one");
  }
  if (Magic(bytes) == kFatbinMagic) return DecodeFatbin(bytes, part, only_sm, budget, image);
  if (IsElf(bytes)) {
    Result<CubinEntry> cubin = DecodeCubin(bytes, 0);
    if (!cubin.ok()) return cubin.status();
    cubin->part = part;
    image->cubins.push_back(std::move(cubin).value());
    return Status::Ok();
  }
  if (LooksLikePtx(bytes)) {
    if (bytes.size() > kMaxDecompressedBytes) return Status(StatusCode::kResourceExhausted, "a ptx text is too long");
    image->ptx.push_back(MakePtx(bytes, 0, part));
    return Status::Ok();
  }
  return Status(StatusCode::kInvalidArgument, "an image is neither a fatbin nor a cubin nor ptx text");
}

std::string Architectures(const Image& image) {
  std::set<std::string> names;
  for (const PtxEntry& entry : image.ptx)
    names.insert(fmt::format("compute_{}{}", entry.sm, entry.suffix == 0 ? "" : std::string(1, entry.suffix)));
  for (const CubinEntry& entry : image.cubins) names.insert(fmt::format("sm_{}", entry.sm));
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "nothing" : list;
}

}  // namespace

Result<Image> DecodeImage(const std::vector<std::span<const std::byte>>& parts, uint32_t only_sm) {
  Image image;
  uint64_t budget = kMaxDecompressedBytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(DecodePart(parts[i], static_cast<uint32_t>(i), only_sm, &budget, &image));
  }
  return image;
}

Result<uint64_t> PartSize(std::span<const std::byte> bytes) {
  if (Magic(bytes) == kFatbinMagic) return FatbinSize(bytes);
  if (IsElf(bytes)) return CubinSize(bytes);
  if (LooksLikePtx(bytes)) {
    const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    return static_cast<uint64_t>(end - bytes.begin());
  }
  return Status(StatusCode::kInvalidArgument, "an image is neither a fatbin nor a cubin nor ptx text");
}

Result<Selection> SelectImage(const Image& image, uint32_t sm) {
  Selection selection;
  std::set<uint32_t> parts;
  for (const PtxEntry& entry : image.ptx) parts.insert(entry.part);
  for (uint32_t part : parts) {
    const PtxEntry* best = nullptr;
    for (const PtxEntry& entry : image.ptx) {
      if (entry.part != part || entry.sm > sm) continue;
      // An architecture-specific variant runs on exactly its architecture, a family's on later ones of the family.
      if (entry.suffix == 'a' && entry.sm != sm) continue;
      if (entry.suffix == 'f' && entry.sm / 10 != sm / 10) continue;
      if (best == nullptr || entry.sm > best->sm || (entry.sm == best->sm && entry.suffix != 0 && best->suffix == 0))
        best = &entry;
    }
    if (best != nullptr) selection.ptx_texts.push_back(best->text);
  }
  if (!selection.ptx_texts.empty()) return selection;
  // One part each, as for PTX.
  std::set<uint32_t> cubin_parts;
  for (const CubinEntry& entry : image.cubins) cubin_parts.insert(entry.part);
  bool any = false;
  for (uint32_t part : cubin_parts) {
    const CubinEntry* best = nullptr;
    for (const CubinEntry& entry : image.cubins) {
      if (entry.part == part && RunsOn(entry.sm, sm) && (best == nullptr || entry.sm > best->sm)) best = &entry;
    }
    if (best == nullptr) continue;
    any = true;
    selection.kernels.insert(selection.kernels.end(), best->kernels.begin(), best->kernels.end());
    selection.variables.insert(selection.variables.end(), best->variables.begin(), best->variables.end());
  }
  if (any) return selection;
  // An empty fatbin (some compiler options write one) loads and holds nothing.
  if (image.ptx.empty() && image.cubins.empty()) return selection;
  return Status(StatusCode::kNotFound, fmt::format("an image holds {}, none of which fits sm_{}", Architectures(image), sm));
}

}  // namespace tessera::code_image
