#include "server/code_image/fatbin.h"

#include <fmt/core.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cctype>

#include "server/code_image/bytes.h"
#include "server/code_image/cubin.h"

namespace tessera::code_image {
namespace {

constexpr uint64_t kHeaderBytes = 16;
constexpr uint64_t kMinEntryBytes = 64;
constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;
constexpr uint16_t kKindPtx = 1;
constexpr uint16_t kKindElf = 2;

Status BadFatbin(const std::string& what) { return Status(StatusCode::kInvalidArgument, "a fatbin " + what); }

struct Entry {
  uint16_t kind = 0;
  uint32_t header_size = 0;
  uint64_t payload_size = 0;
  uint32_t compressed_size = 0;
  uint32_t sm = 0;
  uint64_t flags = 0;
  uint64_t uncompressed_size = 0;
};

bool ReadEntry(Bytes bytes, uint64_t at, Entry* entry) {
  return bytes.Read(at, &entry->kind) && bytes.Read(at + 4, &entry->header_size) && bytes.Read(at + 8, &entry->payload_size) &&
         bytes.Read(at + 16, &entry->compressed_size) && bytes.Read(at + 28, &entry->sm) && bytes.Read(at + 40, &entry->flags) &&
         bytes.Read(at + 56, &entry->uncompressed_size);
}

Status Decompress(std::span<const std::byte> packed, const Entry& entry, uint64_t* budget, std::vector<std::byte>* out) {
  if (entry.uncompressed_size > *budget || entry.uncompressed_size > kMaxDecompressedBytes) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("an image unpacks to more than {} MiB", kMaxDecompressedBytes >> 20));
  }
  // Both formats shrink at most about a thousandfold in what compilers write; a claim far beyond is not worth the memory.
  if (entry.uncompressed_size > packed.size() * 4096 + 65536) return BadFatbin("claims to unpack to more than it can hold");
  *budget -= entry.uncompressed_size;
  out->resize(entry.uncompressed_size);
  if ((entry.flags & kFlagZstd) != 0) {
    const size_t n = ZSTD_decompress(out->data(), out->size(), packed.data(), packed.size());
    if (ZSTD_isError(n) || n != out->size()) return BadFatbin("holds Zstandard data that does not unpack");
    return Status::Ok();
  }
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(packed.data()), reinterpret_cast<char*>(out->data()),
                                    static_cast<int>(packed.size()), static_cast<int>(out->size()));
  if (n < 0 || static_cast<size_t>(n) != out->size()) return BadFatbin("holds LZ4 data that does not unpack");
  return Status::Ok();
}

}  // namespace

PtxEntry MakePtx(std::span<const std::byte> bytes, uint32_t sm, uint32_t part) {
  PtxEntry entry;
  entry.part = part;
  entry.sm = sm;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  entry.text = std::string(text.substr(0, text.find('\0')));
  const size_t target = entry.text.find(".target");
  const size_t name = target == std::string::npos ? target : entry.text.find("sm_", target);
  if (name != std::string::npos && name - target < 32) {
    uint32_t number = 0;
    size_t at = name + 3;
    while (at < entry.text.size() && std::isdigit(static_cast<unsigned char>(entry.text[at])) != 0 && number < 100000) {
      number = number * 10 + static_cast<uint32_t>(entry.text[at++] - '0');
    }
    if (at < entry.text.size() && (entry.text[at] == 'a' || entry.text[at] == 'f')) entry.suffix = entry.text[at];
    if (entry.sm == 0) entry.sm = number;
  }
  return entry;
}

Result<uint64_t> FatbinSize(std::span<const std::byte> data) {
  const Bytes bytes(data);
  uint32_t magic = 0;
  uint16_t version = 0, header_size = 0;
  uint64_t payload = 0;
  if (!bytes.Read(0, &magic) || magic != kFatbinMagic || !bytes.Read(4, &version) || !bytes.Read(6, &header_size) ||
      !bytes.Read(8, &payload)) {
    return BadFatbin("has no header");
  }
  if (version != 1 || header_size < kHeaderBytes)
    return BadFatbin(fmt::format("is of version {} with a header of {} bytes, which is not known", version, header_size));
  if (!bytes.Contains(header_size, payload)) return BadFatbin("is shorter than its header says");
  return header_size + payload;
}

bool RunsOn(uint32_t code_sm, uint32_t sm) { return code_sm / 10 == sm / 10 && code_sm <= sm; }

Status DecodeFatbin(std::span<const std::byte> data, uint32_t part, uint32_t only_sm, uint64_t* budget, Image* image) {
  Result<uint64_t> size = FatbinSize(data);
  if (!size.ok()) return size.status();
  const Bytes bytes(data.first(static_cast<size_t>(size.value())));
  uint16_t header_size = 0;
  bytes.Read(6, &header_size);
  uint64_t at = header_size;
  while (at < bytes.size()) {
    Entry entry;
    if (!ReadEntry(bytes, at, &entry) || entry.header_size < kMinEntryBytes || !bytes.Contains(at, entry.header_size) ||
        !bytes.Contains(at + entry.header_size, entry.payload_size)) {
      return BadFatbin(fmt::format("has an entry at {} that does not fit", at));
    }
    std::span<const std::byte> payload = bytes.Slice(at + entry.header_size, entry.payload_size);
    at += entry.header_size + entry.payload_size;
    if (entry.kind != kKindPtx && entry.kind != kKindElf) continue;  // other kinds (intermediate code) load nothing
    if (entry.kind == kKindPtx && only_sm != 0 && entry.sm > only_sm) {
      PtxEntry& named = image->ptx.emplace_back();
      named.sm = entry.sm;
      named.part = part;
      continue;
    }
    if (entry.kind == kKindElf && only_sm != 0 && !RunsOn(entry.sm, only_sm)) {
      CubinEntry& named = image->cubins.emplace_back();
      named.sm = entry.sm;
      named.part = part;
      continue;
    }
    std::vector<std::byte> unpacked;
    if ((entry.flags & (kFlagLz4 | kFlagZstd)) != 0) {
      if ((entry.flags & kFlagLz4) != 0 && (entry.flags & kFlagZstd) != 0)
        return Status(StatusCode::kUnsupported, "a fatbin entry names two compressions");
      if (entry.compressed_size > payload.size()) return BadFatbin("has compressed data that is longer than its entry");
      RETURN_IF_ERROR(Decompress(payload.first(entry.compressed_size), entry, budget, &unpacked));
      payload = unpacked;
    }
    if (entry.kind == kKindPtx) {
      image->ptx.push_back(MakePtx(payload, entry.sm, part));
      continue;
    }
    Result<CubinEntry> cubin = DecodeCubin(payload, entry.sm);
    if (!cubin.ok()) return cubin.status();
    cubin->part = part;
    image->cubins.push_back(std::move(cubin).value());
  }
  return Status::Ok();
}

}  // namespace tessera::code_image
