#include "server/worker/code/driver_image.h"

#include <cstring>
#include <string_view>

#include "server/code_image/image.h"

namespace tessera {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kFatbinMagic = 0xBA55ED50;

bool Mentions(std::span<const std::byte> bytes, std::string_view word) {
  return memmem(bytes.data(), bytes.size(), word.data(), word.size()) != nullptr;
}

bool IsFatbin(std::span<const std::byte> bytes) {
  uint32_t magic = 0;
  if (bytes.size() >= sizeof(magic)) std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == kFatbinMagic;
}

}  // namespace

Result<std::unique_ptr<DriverImage>> DriverImage::Build(BlobStore& blobs, uint32_t form, std::span<const uint64_t> ids) {
  const Status malformed(StatusCode::kProtocolViolation, "an image that is none");
  if (form > 2 || ids.empty() || (form != 2 && ids.size() != 1)) return malformed;
  auto image = std::make_unique<DriverImage>();
  Status taken;
  for (uint64_t id : ids) {
    Result<BlobStore::Bytes> bytes = blobs.Take(id);
    // The driver reads PTX up to its NUL; what a client sent is not trusted to have one, and gets it here.
    if (bytes.ok() && (*bytes)->size() > 0) {
      image->parts_.push_back(std::move(bytes).value());
    } else if (taken.ok()) {
      taken = bytes.ok() ? malformed : bytes.status();
    }
  }
  if (!taken.ok()) return taken;
  if (form == 0) {
    image->data_ = image->parts_[0]->data();
    return image;
  }
  image->wrapper_ = {kWrapperMagic, form, image->parts_[0]->data(), nullptr};
  if (form == 2) {
    for (size_t i = 1; i < image->parts_.size(); ++i) image->prelinked_.push_back(image->parts_[i]->data());
    image->prelinked_.push_back(nullptr);
    image->wrapper_.list = image->prelinked_.data();
  }
  image->data_ = &image->wrapper_;
  return image;
}

std::vector<std::span<const std::byte>> DriverImage::parts() const {
  std::vector<std::span<const std::byte>> parts;
  for (const BlobStore::Bytes& part : parts_) parts.push_back(part->bytes());
  return parts;
}

bool DriverImage::MayPrint() const {
  for (const BlobStore::Bytes& part : parts_) {
    const std::span<const std::byte> bytes = part->bytes();
    if (Mentions(bytes, "vprintf")) return true;
    if (!IsFatbin(bytes)) continue;
    if (bytes.size() > kScanBytesMax) return true;
    // Looks into compressed entries. One that cannot be decoded is taken to print: an extra synchronise costs little.
    const Result<code_image::Image> decoded = code_image::DecodeImage({bytes});
    if (!decoded.ok()) return true;
    for (const code_image::PtxEntry& text : decoded.value().ptx) {
      if (text.text.find("vprintf") != std::string::npos) return true;
    }
    for (const code_image::CubinEntry& cubin : decoded.value().cubins) {
      if (cubin.calls_vprintf) return true;
    }
  }
  return false;
}

void LoadedImages::Keep(HandleId owner, std::unique_ptr<DriverImage> image, JitOptions options) {
  MutexLock lock(mutex_);
  images_[owner.value()] = {std::move(image), std::move(options)};
}

void LoadedImages::Drop(HandleId owner) {
  Loaded dropped;
  MutexLock lock(mutex_);
  const auto found = images_.find(owner.value());
  if (found == images_.end()) return;
  dropped = std::move(found->second);
  images_.erase(found);
}

}  // namespace tessera
