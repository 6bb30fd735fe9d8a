// The bill as plainly as it can be written: all spans are kept, and every figure is counted anew from all of them. With a fault
// switched on it is wrong on purpose, so that a test can show that it would notice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "scheduler/busy_tally.h"
#include "scheduler/vgpu_spec.h"

namespace tessera {

enum class LedgerFault {
  kNone,
  kRefundLost,          // a token is billed to its end, although it was given back
  kOverlapBilledTwice,  // everybody is billed all of a time that several share
  kDebtNeverLeaves,     // what was used stays in the window
  kOverrunFree,         // what runs behind the end of a token is not billed
};

class ReferenceLedger {
 public:
  explicit ReferenceLedger(LedgerFault fault = LedgerFault::kNone) : fault_(fault) {}

  void Busy(VgpuId vgpu, int64_t begin_ns, int64_t end_ns) { spans_.push_back({vgpu, begin_ns, end_ns}); }
  // A token, whether it was used or not. The ledger that is tested does not bill it.
  void Token(VgpuId vgpu, int64_t begin_ns, int64_t end_ns) { tokens_.push_back({vgpu, begin_ns, end_ns}); }

  // Of the time within [now - window, now], in nanoseconds.
  double UsedNs(VgpuId vgpu, int64_t now_ns, int64_t window_ns) const {
    const int64_t from_ns = fault_ == LedgerFault::kDebtNeverLeaves ? 0 : std::max<int64_t>(0, now_ns - window_ns);
    std::vector<Span> spans = spans_;
    if (fault_ == LedgerFault::kRefundLost) spans.insert(spans.end(), tokens_.begin(), tokens_.end());
    if (fault_ == LedgerFault::kOverrunFree) CutToTokens(&spans);
    double used_ns = 0;
    std::map<VgpuId, int64_t> turns;  // of those that are busy: since when each takes part
    const std::set<int64_t> edges = Edges(spans, from_ns, now_ns);
    for (auto begin = edges.begin(), end = std::next(begin); end != edges.end(); begin = end++) {
      std::set<VgpuId> busy;
      for (const Span& span : spans) {
        if (span.begin_ns <= *begin && span.end_ns >= *end) busy.insert(span.vgpu);
      }
      std::erase_if(turns, [&](const auto& each) { return !busy.contains(each.first); });
      for (const Span& span : spans) {
        if (busy.contains(span.vgpu)) turns.emplace(span.vgpu, turns.empty() ? *begin : *begin + BusyTally::kTurnNs);
      }
      if (turns.empty()) continue;
      const auto later = [](const auto& a, const auto& b) { return a.second < b.second; };
      int64_t& first_ns = std::min_element(turns.begin(), turns.end(), later)->second;
      first_ns = std::min(first_ns, *begin);
      const auto sharers = std::count_if(turns.begin(), turns.end(), [&](const auto& each) { return each.second <= *begin; });
      if (*begin < from_ns || !turns.contains(vgpu) || turns[vgpu] > *begin) continue;
      used_ns += static_cast<double>(*end - *begin) / (fault_ == LedgerFault::kOverlapBilledTwice ? 1 : sharers);
    }
    return used_ns;
  }

 private:
  struct Span {
    VgpuId vgpu;
    int64_t begin_ns, end_ns;
  };

  // Where anything may change until `now_ns`.
  static std::set<int64_t> Edges(const std::vector<Span>& spans, int64_t from_ns, int64_t now_ns) {
    std::set<int64_t> edges = {from_ns, now_ns};
    for (const Span& span : spans) {
      for (const int64_t edge : {span.begin_ns, span.begin_ns + BusyTally::kTurnNs, span.end_ns}) {
        if (edge < now_ns) edges.insert(edge);
      }
    }
    return edges;
  }

  void CutToTokens(std::vector<Span>* spans) const {
    std::vector<Span> cut;
    for (const Span& span : *spans) {
      for (const Span& token : tokens_) {
        const Span both = {span.vgpu, std::max(span.begin_ns, token.begin_ns), std::min(span.end_ns, token.end_ns)};
        if (token.vgpu == span.vgpu && both.begin_ns < both.end_ns) cut.push_back(both);
      }
    }
    *spans = cut;
  }

  const LedgerFault fault_;
  std::vector<Span> spans_, tokens_;
};

}  // namespace tessera
