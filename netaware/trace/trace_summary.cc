#include "netaware/trace/trace_summary.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace tessera {
namespace {

using Calls = std::vector<const TraceFacts::Call*>;

std::string_view NameOf(const TraceFacts& facts, TraceFacts::Name name) { return facts.names[name]; }

bool IsLaunch(std::string_view name) { return name.starts_with("cuLaunch") || name.starts_with("cuGraphLaunch"); }

// Calls named *Synchronize wait for the GPU even if they did not wait for an answer of their own.
bool Waits(const TraceFacts& facts, const TraceFacts::Call& call) {
  return call.waits > 0 || NameOf(facts, call.name).find("Synchronize") != std::string_view::npos;
}

// The calls by thread, without calls inside other calls, and without the library's own calls for the trace.
std::map<uint32_t, Calls> OutermostCalls(const TraceFacts& facts) {
  std::map<uint32_t, Calls> by_thread;
  for (const TraceFacts::Call& call : facts.calls) {
    if (!NameOf(facts, call.name).starts_with("tesseraTrace")) by_thread[call.thread].push_back(&call);
  }
  for (auto& [thread, calls] : by_thread) {
    std::ranges::sort(calls, [](const auto* a, const auto* b) {
      return std::pair(a->span.begin, -a->span.end) < std::pair(b->span.begin, -b->span.end);
    });
    int64_t until = std::numeric_limits<int64_t>::min();
    std::erase_if(calls,
                  [&](const auto* call) { return call->span.begin < std::exchange(until, std::max(until, call->span.end)); });
  }
  return by_thread;
}

double InCalls(const Calls& calls) {
  double ns = 0;
  for (const auto* call : calls) ns += static_cast<double>(call->span.length());
  return ns;
}

void SortLongestFirst(std::vector<TraceSummary::Sum>* sums) {
  std::ranges::sort(*sums, [](const auto& a, const auto& b) { return std::pair(-a.ns, a.name) < std::pair(-b.ns, b.name); });
}

std::string ThreadName(const TraceFacts& facts, uint32_t thread) {
  const auto found = facts.threads.find(thread);
  return found == facts.threads.end() || found->second.empty() ? std::to_string(thread) : found->second;
}

void AddWork(const TraceFacts& facts, TraceSummary* summary) {
  std::map<TraceFacts::Name, TraceSummary::Sum> kernels;
  for (const TraceFacts::Work& work : facts.work) {
    TraceSummary::Sum& kernel = kernels[work.name];
    ++kernel.count;
    kernel.ns += static_cast<double>(work.span.length());
  }
  for (auto& [name, kernel] : kernels) {
    kernel.name = NameOf(facts, name);
    summary->kernels.push_back(kernel);
  }
  SortLongestFirst(&summary->kernels);
  summary->launches = facts.work.size() + facts.unmeasured;
  summary->unmeasured = facts.unmeasured;
}

void AddFunctions(const TraceFacts& facts, const std::map<uint32_t, Calls>& by_thread, const Spans& busy, TraceSummary* summary) {
  std::map<std::pair<uint32_t, TraceFacts::Name>, TraceSummary::Sum> functions;
  for (const auto& [thread, calls] : by_thread) {
    for (const auto* call : calls) {
      const bool launches = IsLaunch(NameOf(facts, call->name));
      summary->round_trips += call->waits;
      summary->launch_calls += launches ? 1 : 0;
      summary->waiting_launches += launches && call->waits > 0 ? 1 : 0;
      if (!Waits(facts, *call)) continue;
      TraceSummary::Sum& function = functions[{thread, call->name}];
      ++function.count;
      function.ns += static_cast<double>(call->span.length() - Covered(busy, call->span));
    }
  }
  for (auto& [of, function] : functions) {
    function.thread = ThreadName(facts, of.first);
    function.name = NameOf(facts, of.second);
    summary->functions.push_back(function);
  }
  SortLongestFirst(&summary->functions);
}

void AddThread(const TraceFacts& facts, uint32_t thread, const Calls& calls, const Spans& busy, TraceSummary* summary) {
  std::vector<Span> executed;
  for (const TraceFacts::Execution& execution : facts.executions) {
    if (execution.thread == thread) executed.push_back(execution.span);
  }
  const Spans served = Without(Merged(std::move(executed)), busy);
  for (const auto* call : calls) {
    const auto took_ns = static_cast<double>(call->span.length());
    if (!Waits(facts, *call)) {
      summary->library_ns += took_ns;
      continue;
    }
    const auto gpu_ns = static_cast<double>(Covered(busy, call->span));
    const auto server_ns = static_cast<double>(Covered(served, call->span));
    summary->gpu_wait_ns += gpu_ns;
    summary->server_ns += server_ns;
    summary->way_ns += took_ns - gpu_ns - server_ns;
  }
  summary->thread = ThreadName(facts, thread);
  summary->calls = calls.size();
  summary->program_ns = std::max(summary->wall_ns - InCalls(calls), 0.0);
}

}  // namespace

TraceSummary Summarize(const TraceFacts& facts) {
  TraceSummary summary;
  summary.program = facts.program;
  summary.servers = facts.servers;
  summary.over_link = facts.over_link;
  summary.events_lost = facts.events_lost;
  std::vector<Span> work;
  for (const TraceFacts::Work& one : facts.work) work.push_back(one.span);
  const Spans busy = Merged(std::move(work));
  summary.gpu_ns = static_cast<double>(Length(busy));
  AddWork(facts, &summary);
  const std::map<uint32_t, Calls> by_thread = OutermostCalls(facts);
  summary.threads = by_thread.size();
  if (by_thread.empty()) return summary;
  Span wall = by_thread.begin()->second.front()->span;
  for (const auto& [thread, calls] : by_thread) {
    wall.begin = std::min(wall.begin, calls.front()->span.begin);
    for (const auto* call : calls) wall.end = std::max(wall.end, call->span.end);
  }
  summary.wall_ns = static_cast<double>(wall.length());
  AddFunctions(facts, by_thread, busy, &summary);
  const auto& [thread, calls] = *std::ranges::max_element(by_thread, {}, [](const auto& one) { return InCalls(one.second); });
  AddThread(facts, thread, calls, busy, &summary);
  return summary;
}

}  // namespace tessera
