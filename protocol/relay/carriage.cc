#include "protocol/relay/carriage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/base/check.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr uint64_t kBytes = (sizeof(CarriagePage) + kPageBytes - 1) / kPageBytes * kPageBytes;

Status Impossible(const char* what) {
  return Status(StatusCode::kProtocolViolation, std::string("a session that is to go on has an impossible ") + what);
}

Status CheckPage(const CarriagePage& page) {
  if (page.magic != CarriagePage::kMagic) return Impossible("page");
  const CarriageTerms& terms = page.terms;
  if (terms.side != Channel::Side::kClient && terms.side != Channel::Side::kServer) return Impossible("side");
  if (terms.grace_ms > ResumeOffer::kGraceMsMax || terms.peer.back() != 0) return Impossible("page");
  if (page.messages_recorded - page.messages_acked > CarriagePage::kMessagesMax) return Impossible("number of messages");
  if (page.segments_used > page.segments.size()) return Impossible("number of segments");
  if (page.goodbye_bytes > CarriagePage::kGoodbyeBytesMax) return Impossible("good-bye");
  return Status::Ok();
}

}  // namespace

Carriage::Carriage(KeeperLine* keeper, uint64_t number, Mapping memory)
    : keeper_(keeper), number_(number), memory_(std::move(memory)), page_(reinterpret_cast<CarriagePage*>(memory_.data())) {
  // Does not look at entries that were never used, so they take no memory.
  for (size_t i = 0; i < page_->segments_used.load(); ++i) {
    const uint32_t id = page_->segments[i].id.load();
    if (id == 0) {
      free_.push_back(static_cast<uint16_t>(i));
    } else {
      entries_.emplace(id, static_cast<uint16_t>(i));
    }
  }
}

Result<std::unique_ptr<Carriage>> Carriage::Unkept() {
  Result<UniqueFd> file = CreateSegmentFile("tessera-carriage", kBytes);
  if (!file.ok()) return file.status();
  Result<Mapping> memory = Mapping::Map(file->get(), kBytes, 0, MapPlacement::Anywhere());
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<Carriage>(new Carriage(nullptr, 0, std::move(*memory)));
}

Result<std::unique_ptr<Carriage>> Carriage::Begin(KeeperLine& keeper, const CarriageTerms& terms, const Channel& channel,
                                                  const Channel::Files& files) {
  Result<UniqueFd> file = CreateSegmentFile("tessera-carriage", kBytes);
  if (!file.ok()) return file.status();
  Result<Mapping> memory = Mapping::Map(file->get(), kBytes, 0, MapPlacement::Anywhere());
  if (!memory.ok()) return memory.status();
  std::unique_ptr<Carriage> carriage(new Carriage(&keeper, keeper.NextNumber(), std::move(*memory)));
  carriage->page_->terms = terms;
  carriage->page_->magic = CarriagePage::kMagic;
  RETURN_IF_ERROR(keeper.KeepSession(carriage->number_, file->get(), channel, files));
  return carriage;
}

Result<std::unique_ptr<Carriage>> Carriage::Adopt(KeeperLine& keeper, uint64_t number, UniqueFd page) {
  Status status = CheckSegmentFile(page.get(), kBytes);
  Result<Mapping> memory = status.ok() ? Mapping::Map(page.get(), kBytes, 0, MapPlacement::Anywhere()) : Result<Mapping>(status);
  if (memory.ok()) status = CheckPage(*reinterpret_cast<const CarriagePage*>(memory->data()));
  if (!memory.ok() || !status.ok()) {
    keeper.EndSession(number);
    return memory.ok() ? status : memory.status();
  }
  return std::unique_ptr<Carriage>(new Carriage(&keeper, number, std::move(*memory)));
}

Carriage::~Carriage() {
  if (keeper_ == nullptr) return;
  page_->over.store(1);
  keeper_->EndSession(number_);
}

Status Carriage::Record(std::span<const std::byte> message) {
  if (message.size() > CarriagePage::kMessageBytesMax)
    return Status(StatusCode::kProtocolViolation, "the peer sent a long message");
  if (kept() >= CarriagePage::kMessagesMax) {
    return Status(StatusCode::kResourceExhausted,
                  "the peer has offered and closed too many segments that the other host has not heard of");
  }
  const uint64_t before = recorded();
  CarriagePage::Message& place = page_->messages[before % CarriagePage::kMessagesMax];
  place.bytes = static_cast<uint32_t>(message.size());
  std::memcpy(place.data.data(), message.data(), message.size());
  page_->messages_recorded.store(before + 1, std::memory_order_release);
  return Status::Ok();
}

bool Carriage::WasLast(std::span<const std::byte> message) const {
  const uint64_t last = recorded();
  return last != 0 && std::ranges::equal(Message(last), message);
}

std::vector<std::byte> Carriage::Message(uint64_t number) const {
  const CarriagePage::Message& place = page_->messages[(number - 1) % CarriagePage::kMessagesMax];
  return {place.data.begin(), place.data.begin() + std::min<size_t>(place.bytes, place.data.size())};
}

void Carriage::RecordGoodbye(std::span<const std::byte> message) {
  if (message.size() > page_->goodbye.size() || page_->goodbye_bytes.load() != 0) return;
  std::memcpy(page_->goodbye.data(), message.data(), message.size());
  page_->goodbye_bytes.store(static_cast<uint32_t>(message.size()), std::memory_order_release);
}

std::optional<Goodbye> Carriage::TakenGoodbye() const {
  Result<Goodbye> goodbye = Goodbye::Decode(std::span(page_->goodbye).first(page_->goodbye_bytes.load()));
  return goodbye.ok() ? std::optional(std::move(*goodbye)) : std::nullopt;
}

Status Carriage::KeepFile(uint32_t id, int fd) {
  return keeper_ == nullptr ? Status::Ok() : keeper_->KeepSegment(number_, id, fd);
}

Status Carriage::AddSegment(uint32_t id, uint64_t size_bytes) {
  if (Find(id) != nullptr) return Status::Ok();
  if (free_.empty()) {
    const uint32_t unused = page_->segments_used.load();
    if (unused == page_->segments.size())
      return Status(StatusCode::kResourceExhausted, "too many segments of host memory at once");
    page_->segments_used.store(unused + 1);
    free_.push_back(static_cast<uint16_t>(unused));
  }
  const uint16_t entry = free_.back();
  free_.pop_back();
  std::atomic<uint32_t>& highest = page_->highest_offered[id % 2];
  if (id > highest.load()) highest.store(id);
  CarriagePage::Segment& segment = page_->segments[entry];
  segment.closed.store(0);
  segment.size_bytes.store(size_bytes);
  segment.id.store(id, std::memory_order_release);
  entries_.emplace(id, entry);
  return Status::Ok();
}

void Carriage::Refuse(uint32_t id) {
  std::atomic<uint32_t>& highest = page_->highest_offered[id % 2];
  if (id > highest.load()) highest.store(id);
  ForgetFile(id);
}

bool Carriage::CloseSegment(uint32_t id, uint32_t side) {
  CarriagePage::Segment* segment = Find(id);
  if (segment == nullptr) return false;
  segment->closed.store(segment->closed.load() | side);
  if (segment->closed.load() != (CarriagePage::Segment::kClosedHere | CarriagePage::Segment::kClosedThere)) return false;
  segment->id.store(0, std::memory_order_release);
  const auto found = entries_.find(id);
  free_.push_back(found->second);
  entries_.erase(found);
  ForgetFile(id);
  return true;
}

void Carriage::ForgetFile(uint32_t id) {
  if (keeper_ != nullptr) keeper_->ForgetSegment(number_, id);
}

bool Carriage::IsClosed(uint32_t id) const {
  return Find(id) == nullptr && id != 0 && id <= page_->highest_offered[id % 2].load();
}

Status Carriage::ForEachSegment(const std::function<Status(uint32_t, uint64_t)>& each) const {
  for (const auto& [id, entry] : entries_) RETURN_IF_ERROR(each(id, page_->segments[entry].size_bytes.load()));
  return Status::Ok();
}

CarriagePage::Segment* Carriage::Find(uint32_t id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &page_->segments[found->second];
}

}  // namespace tessera
