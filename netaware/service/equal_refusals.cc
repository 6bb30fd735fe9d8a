#include "netaware/service/equal_refusals.h"

#include <fmt/core.h>

#include <utility>

namespace tessera {
namespace {

// Each of them is another grant.
bool IsOfGrantAsked(const AuditRecord& record) { return record.action == "ask" || record.action == "grant"; }

std::string KeyOf(const AuditRecord& record) {
  std::string key;
  for (const std::string* text : {&record.actor, &record.action, &record.outcome, &record.holder, &record.text})
    key += *text + '\n';
  return IsOfGrantAsked(record) ? key : key + record.object;
}

}  // namespace

bool EqualRefusals::IsNew(const AuditRecord& record) {
  std::string key = KeyOf(record);
  const auto there = counted_.find(key);
  if (there != counted_.end() && record.time_ms - there->second.first.time_ms < kMinuteMs) {
    ++there->second.more;
    there->second.last_ms = record.time_ms;
    return false;
  }
  for (const AuditRecord& ended : Ended(record.time_ms)) ended_.push_back(ended);
  if (counted_.size() == kDifferentMax) EndFirst();
  counted_[key] = {.first = record};
  order_.push_back(std::move(key));
  return true;
}

void EqualRefusals::EndFirst() {
  const auto ends = counted_.find(order_.front());
  order_.pop_front();
  Counted counted = std::move(ends->second);
  counted_.erase(ends);
  if (counted.more == 0) return;
  AuditRecord record = std::move(counted.first);
  if (IsOfGrantAsked(record)) record.object.clear();
  record.text += fmt::format("{}({} time{} more in {} s)", record.text.empty() ? "" : " ", counted.more,
                             counted.more == 1 ? "" : "s", (counted.last_ms - record.time_ms + 999) / 1'000);
  record.time_ms = counted.last_ms;
  ended_.push_back(std::move(record));
}

std::vector<AuditRecord> EqualRefusals::Ended(int64_t now_ms) {
  while (!order_.empty() && now_ms - counted_.at(order_.front()).first.time_ms >= kMinuteMs) EndFirst();
  return std::exchange(ended_, {});
}

}  // namespace tessera
