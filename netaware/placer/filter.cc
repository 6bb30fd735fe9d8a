#include "netaware/placer/filter.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "protocol/base/bytes_text.h"

namespace tessera {
namespace {

double Share(uint32_t ppm) { return double{1} * ppm / kWholeShare; }

std::string Count(uint32_t number, std::string_view noun) { return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s"); }

std::string Joined(const std::set<std::string, std::less<>>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool Refusals::Refuse(const Wish& wish, const std::string& not_offered, const Inventory::Gpu& gpu, const GpuAmount& wanted,
                      const FilterView& view) {
  ++looked_at_;
  models_.insert(gpu.is.model);
  const GpuAmount free = view.FreeOf(gpu);
  const auto refuse = [&](Filter filter) {
    ++refused_[filter];
    return true;
  };
  if (!wish.models.empty() && std::find(wish.models.begin(), wish.models.end(), gpu.is.model) == wish.models.end()) {
    return refuse(kModel);
  }
  if (!not_offered.empty()) {
    servers_.insert(not_offered);
    return refuse(kServer);
  }
  if (!Has(gpu.is.isolations, wish.isolation)) {
    isolations_.insert(gpu.is.isolations.begin(), gpu.is.isolations.end());
    return refuse(kIsolation);
  }
  if (!Has(gpu.is.priorities, wish.priority)) {
    priorities_.insert(gpu.is.priorities.begin(), gpu.is.priorities.end());
    return refuse(kPriority);
  }
  if (wanted.share > gpu.is.all.share - std::min(gpu.is.all.share, gpu.is.kept_share)) {
    kept_least_ = std::min(kept_least_, gpu.is.kept_share);
    return refuse(kKept);
  }
  if (wanted.share > free.share) {
    share_most_ = std::max(share_most_, free.share);
    return refuse(kShare);
  }
  // A vGPU without any memory is of no use.
  const uint64_t contexts = ContextsOf(gpu.is, wish.processes);
  if (wanted.memory_bytes <= contexts || wanted.memory_bytes > free.memory_bytes) {
    memory_most_ = std::max(memory_most_, free.memory_bytes - std::min(free.memory_bytes, contexts));
    contexts_most_ = std::max(contexts_most_, contexts);
    return refuse(kMemory);
  }
  return false;
}

uint32_t Refusals::fit() const { return looked_at_ - std::accumulate(refused_.begin(), refused_.end(), 0u); }

std::string Refusals::Sentence(const Wish& wish) const {
  std::string text = fmt::format("{} wanted, {} of the pool's {} fit", Count(wish.gpus, "GPU"), fit(), looked_at_);
  if (refused_[kModel] > 0) text += fmt::format("; {} of another model: there is {}", refused_[kModel], Joined(models_, ", "));
  if (refused_[kServer] > 0) text += fmt::format("; {} of a server that {}", refused_[kServer], Joined(servers_, ", or "));
  if (refused_[kIsolation] > 0) {
    text +=
        fmt::format("; {} without isolation {}: there is {}", refused_[kIsolation], wish.isolation, Joined(isolations_, ", "));
  }
  if (refused_[kPriority] > 0) {
    text += fmt::format("; {} without priority {}: there is {}", refused_[kPriority], wish.priority, Joined(priorities_, ", "));
  }
  if (refused_[kKept] > 0) {
    text += fmt::format(
        "; {} with {} of the time kept for sessions without a ticket: ask for {} at most (--gpu-share), or have the "
        "server started with --admission ticket",
        refused_[kKept], Share(kept_least_), Share(kWholeShare - kept_least_));
  }
  if (refused_[kShare] > 0) {
    text += fmt::format("; {} with less than {} of the time left: the most is {}", refused_[kShare], Share(wish.share),
                        Share(share_most_));
  }
  if (refused_[kMemory] > 0) {
    text += fmt::format("; {} with too little memory left: the most is {}", refused_[kMemory], BytesText(memory_most_));
    if (wish.memory_bytes) text += fmt::format(", and {} is wanted", BytesText(*wish.memory_bytes));
    if (contexts_most_ > 0 && wish.processes > 1) {
      text += fmt::format(" beside {} for the contexts of {} processes (--processes)", BytesText(contexts_most_), wish.processes);
    }
  }
  return text;
}

}  // namespace tessera
