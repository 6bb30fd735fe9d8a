#include "protocol/wire/encoder.h"

#include <algorithm>
#include <new>

namespace tessera {
namespace {
constexpr size_t kFirstBytes = 512;  // fits most records
}  // namespace

void Encoder::Overflow() {
  overflow_ = true;
  capacity_ = size_;
}

bool Encoder::Grow(size_t size) {
  if (overflow_) return false;
  if (!growing_ || size > bytes_max_ - size_) {
    Overflow();
    return false;
  }
  const size_t wanted = std::min(bytes_max_, std::max({kFirstBytes, size_ + size, 2 * capacity_}));
  std::unique_ptr<std::byte[]> larger(new (std::nothrow) std::byte[wanted]);
  if (larger == nullptr) {
    Overflow();
    return false;
  }
  if (size_ != 0) std::memcpy(larger.get(), data_, size_);
  owned_ = std::move(larger);
  data_ = owned_.get();
  capacity_ = owned_capacity_ = wanted;
  return true;
}

}  // namespace tessera
