// Sets of tokens: which sessions work on several GPUs.
#include <algorithm>

#include "server/broker/broker.h"

namespace tessera {

void Broker::FollowSets(int64_t now_ns) {
  if (gpus_.size() < 2) return;
  for (auto& [number, session] : sessions_) FollowSet(session, now_ns);
}

void Broker::FollowSet(Session& session, int64_t now_ns) {
  std::vector<TokenSets::Part> parts;
  for (size_t row = 0; row < gpus_.size(); ++row) {
    const Gpu::Member* const member = session.members[row];
    if (member != nullptr && gpus_[row]->HasGated(*member, now_ns)) parts.push_back(gpus_[row]->PartOf(*member));
  }
  if (parts.size() < 2) return EndSet(session, now_ns);
  for (size_t row = 0; row < gpus_.size(); ++row) {
    if (session.members[row] == nullptr) continue;
    const bool is_part = std::ranges::any_of(parts, [&](const TokenSets::Part& part) { return part.gpu == row; });
    gpus_[row]->SetTogether(*session.members[row], is_part, now_ns);
  }
  sets_.Set(session.number, parts);
  session.has_set = true;
}

void Broker::EndSet(Session& session, int64_t now_ns) {
  if (!session.has_set) return;
  for (size_t row = 0; row < gpus_.size(); ++row) {
    if (session.members[row] != nullptr) gpus_[row]->SetTogether(*session.members[row], false, now_ns);
  }
  sets_.Set(session.number, {});
  session.has_set = false;
}

void Broker::AssembleSets(int64_t now_ns) {
  if (gpus_.size() < 2) return;
  std::vector<const GpuTime*> times;
  for (const std::unique_ptr<Gpu>& gpu : gpus_) times.push_back(&gpu->time());
  sets_.Assemble(times, now_ns, [&](const SetOrder& order) { gpus_[order.gpu]->Carry(order, now_ns); });
}

}  // namespace tessera
