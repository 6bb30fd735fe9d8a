#include "server/gate/answered_requests.h"

#include <algorithm>
#include <utility>

#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr size_t kLengths = 3 * sizeof(uint32_t);  // of the three texts
constexpr size_t kRequestBytesMin = kLengths + sizeof(uint64_t);

}  // namespace

size_t AnsweredRequest::bytes() const { return kRequestBytesMin + holder.size() + id.size() + answer.size(); }

void AnsweredRequest::Encode(Encoder& out) const {
  out.String(holder);
  out.String(id);
  out.Pod(digest);
  out.String(answer);
}

AnsweredRequest AnsweredRequest::Decode(Decoder& in) {
  AnsweredRequest request;
  request.holder = GetHolder(in);
  request.id = in.String(kIdBytesMax);
  in.Pod(&request.digest);
  request.answer = in.String(kAnswerBytesMax);
  if (request.holder.empty() || request.id.empty()) in.Fail();
  return request;
}

void AnsweredRequests::Add(AnsweredRequest request) {
  OfHolder& holder = holders_[request.holder];
  if (const auto before = holder.by_id.find(request.id); before != holder.by_id.end()) {
    holder.bytes -= before->second.bytes();
    bytes_ -= before->second.bytes();
    std::erase(holder.ids, request.id);
  }
  holder.bytes += request.bytes();
  bytes_ += request.bytes();
  holder.ids.push_back(request.id);
  std::string id = request.id;
  holder.by_id[std::move(id)] = std::move(request);
  KeepBounds(holder);
}

void AnsweredRequests::KeepBounds(OfHolder& last) {
  while (last.ids.size() > kOfHolderMax) DropOldest(last);
  while (bytes_ > kBytesMax) {
    const auto most = std::ranges::max_element(holders_, {}, [](const auto& entry) { return entry.second.bytes; });
    DropOldest(most->second);
    if (most->second.ids.empty()) holders_.erase(most);
  }
}

void AnsweredRequests::DropOldest(OfHolder& holder) {
  const auto oldest = holder.by_id.find(holder.ids.front());
  holder.bytes -= oldest->second.bytes();
  bytes_ -= oldest->second.bytes();
  holder.by_id.erase(oldest);
  holder.ids.pop_front();
}

const AnsweredRequest* AnsweredRequests::Find(std::string_view holder, std::string_view id) const {
  const auto of_holder = holders_.find(holder);
  if (of_holder == holders_.end()) return nullptr;
  const auto found = of_holder->second.by_id.find(id);
  return found == of_holder->second.by_id.end() ? nullptr : &found->second;
}

void AnsweredRequests::Encode(Encoder& out) const {
  size_t count = 0;
  for (const auto& [name, holder] : holders_) count += holder.ids.size();
  out.Pod(static_cast<uint32_t>(count));
  for (const auto& [name, holder] : holders_) {
    for (const std::string& id : holder.ids) holder.by_id.at(id).Encode(out);
  }
}

Result<AnsweredRequests> AnsweredRequests::Decode(std::span<const std::byte> bytes) {
  Decoder in(bytes);
  AnsweredRequests requests;
  const size_t count = in.CountOf(kBytesMax / kRequestBytesMin, kRequestBytesMin);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    AnsweredRequest request = AnsweredRequest::Decode(in);
    if (in.ok()) requests.Add(std::move(request));
  }
  if (in.ok() && in.remaining() == 0) return requests;
  return Status(StatusCode::kProtocolViolation, "a malformed list of answered requests");
}

}  // namespace tessera
