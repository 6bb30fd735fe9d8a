#include "client-stub/memory/host_pool.h"

#include <algorithm>

namespace tessera {
namespace {

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

HostPool::HostPool(MarkTable& marks, HostFile file, const CUmemLocation& location, uint64_t bytes_max, bool shareable,
                   bool imported)
    : marks_(marks),
      file_(std::move(file)),
      location_(location),
      shareable_(shareable),
      imported_(imported),
      bytes_max_(RoundUp(bytes_max, HostFile::kPieceBytes)),
      in_file_(HostFile::kDataOffset, 2 * bytes_max_, HostFile::kPieceBytes) {}

Range HostPool::Enter(const Range& block, uint64_t asked) {
  used_[block.base] = Used{asked, block.bytes};
  used_bytes_ += asked;
  used_high_ = std::max(used_high_, used_bytes_);
  return Range{block.base, asked};
}

std::optional<Range> HostPool::Take(uint64_t bytes, StreamKey stream) {
  Settle();
  const uint64_t whole = RoundUp(bytes, kBlockBytes);
  // What this stream freed last is the likeliest to be still in a cache.
  if (const auto own = freed_.find(stream); own != freed_.end()) {
    const auto same =
        std::find_if(own->second.rbegin(), own->second.rend(), [&](const Freed& freed) { return freed.block.bytes == whole; });
    if (same != own->second.rend()) {
      const Range block = same->block;
      marks_.Close(same->mark);
      own->second.erase(std::next(same).base());
      if (own->second.empty()) freed_.erase(own);
      return Enter(block, bytes);
    }
  }
  for (auto& [base, part] : pieces_) {
    if (const auto block = part.blocks.Allocate(whole)) return Enter(*block, bytes);
  }
  return std::nullopt;
}

std::optional<Range> HostPool::BeginGrowth(uint64_t bytes) {
  const uint64_t room = bytes_max_ - std::min(bytes_max_, reserved_ + growing_);
  if (imported_ || bytes > room) return std::nullopt;
  const uint64_t least = RoundUp(bytes, HostFile::kPieceBytes);
  std::optional<Range> range = in_file_.Allocate(std::min(std::max(least, kGrowthBytes), room));
  if (!range) range = in_file_.Allocate(least);
  if (range) growing_ += range->bytes;
  return range;
}

void HostPool::Grow(Piece piece) {
  growing_ -= piece.in_file.bytes;
  Enter(std::move(piece));
}

void HostPool::Enter(Piece piece) {
  const Range range = piece.placed.block;
  pieces_.emplace(range.base, Part{std::move(piece), RangeAllocator(range.base, range.bytes, kBlockBytes)});
  reserved_ += range.bytes;
  reserved_high_ = std::max(reserved_high_, reserved_);
}

bool HostPool::Readmit(const Piece& piece) {
  if (imported_ || reserved_ + growing_ + piece.in_file.bytes > bytes_max_) return false;
  Enter(piece);
  return true;
}

void HostPool::GiveUp(const Range& in_file) {
  growing_ -= in_file.bytes;
  in_file_.Free(in_file.base);
}

void HostPool::Open(Piece piece, uint64_t address, uint64_t bytes) {
  const Range range = piece.placed.block;
  Enter(std::move(piece));
  pieces_.at(range.base).blocks.AllocateAt(range.base, range.bytes);
  Enter(Range{address, range.end() - address}, bytes);
}

bool HostPool::IsOpen(uint64_t offset) const {
  return std::any_of(used_.begin(), used_.end(), [&](const auto& used) { return Locate(used.first)->base == offset; });
}

const HostPool::Part* HostPool::PartOf(uint64_t address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return nullptr;
  const Part& part = std::prev(after)->second;
  return part.piece.placed.block.contains(address) ? &part : nullptr;
}

bool HostPool::Free(uint64_t address, StreamKey stream, uint64_t mark) {
  const auto used = used_.find(address);
  if (used == used_.end()) return false;
  freed_[stream].push_back(Freed{Range{address, used->second.bytes}, mark});
  used_bytes_ -= used->second.asked;
  used_.erase(used);
  return true;
}

void HostPool::FreeNow(uint64_t address) {
  const auto used = used_.find(address);
  if (used == used_.end()) return;
  used_bytes_ -= used->second.asked;
  used_.erase(used);
  GiveBack(address);
}

void HostPool::GiveBack(uint64_t address) {
  // An opened block may begin inside its piece, which is all its own.
  const auto part = std::prev(pieces_.upper_bound(address));
  part->second.blocks.Free(imported_ ? part->first : address);
}

void HostPool::Settle() {
  for (auto stream = freed_.begin(); stream != freed_.end();) {
    std::deque<Freed>& waiting = stream->second;
    CUresult work = CUDA_SUCCESS;
    while (!waiting.empty() && marks_.Passed(waiting.front().mark, &work)) {
      const Freed freed = waiting.front();
      waiting.pop_front();
      marks_.Close(freed.mark);
      if (work != CUDA_SUCCESS) continue;
      GiveBack(freed.block.base);
    }
    stream = waiting.empty() ? freed_.erase(stream) : std::next(stream);
  }
}

std::vector<HostPool::Piece> HostPool::Shrink(uint64_t keep) {
  Settle();
  std::vector<Piece> gone;
  for (auto it = pieces_.begin(); it != pieces_.end() && reserved_ > keep;) {
    if (!it->second.blocks.empty()) {
      ++it;
      continue;
    }
    reserved_ -= it->second.piece.placed.block.bytes;
    gone.push_back(it->second.piece);
    it = pieces_.erase(it);
  }
  return gone;
}

void HostPool::Forget(const Piece& piece) {
  if (imported_) return;
  file_.Discard(piece.in_file);
  in_file_.Free(piece.in_file.base);
}

std::vector<uint64_t> HostPool::EndContext(HandleId context) {
  std::vector<uint64_t> gone;
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    const Piece piece = it->second.piece;
    if (piece.context != context) {
      ++it;
      continue;
    }
    const Range range = piece.placed.block;
    for (auto used = used_.lower_bound(range.base); used != used_.end() && used->first < range.end();) {
      gone.push_back(used->first);
      used_bytes_ -= used->second.asked;
      used = used_.erase(used);
    }
    for (auto stream = freed_.begin(); stream != freed_.end();) {
      std::erase_if(stream->second, [&](const Freed& freed) {
        if (!range.contains(freed.block.base)) return false;
        marks_.Close(freed.mark);
        return true;
      });
      stream = stream->second.empty() ? freed_.erase(stream) : std::next(stream);
    }
    reserved_ -= range.bytes;
    it = pieces_.erase(it);
    Forget(piece);
  }
  return gone;
}

std::optional<Range> HostPool::Locate(uint64_t address) const {
  const auto used = used_.find(address);
  const Part* part = PartOf(address);
  if (used == used_.end() || part == nullptr) return std::nullopt;
  return Range{part->piece.in_file.base + (address - part->piece.placed.block.base), used->second.asked};
}

}  // namespace tessera
