#include "client-stub/managed/page_states.h"

#include <algorithm>
#include <cstddef>

namespace tessera {

PageStates::PageStates(uint64_t pages, PageState initial) : states_(pages, static_cast<uint8_t>(initial)) {
  counts_[static_cast<int>(initial)] = pages;
}

void PageStates::Set(const PageRun& run, PageState state) {
  for (uint64_t page = run.first; page < run.end(); ++page) {
    --counts_[states_[page]];
    states_[page] = static_cast<uint8_t>(state);
  }
  counts_[static_cast<int>(state)] += run.count;
}

PageRun PageStates::Next(uint64_t from, uint64_t end, PageState state) const {
  const auto wanted = static_cast<uint8_t>(state);
  end = std::min<uint64_t>(end, states_.size());
  if (from >= end) return PageRun{};
  const auto stop = states_.begin() + static_cast<ptrdiff_t>(end);
  const auto first = std::find(states_.begin() + static_cast<ptrdiff_t>(from), stop, wanted);
  const auto last = std::find_if(first, stop, [wanted](uint8_t other) { return other != wanted; });
  return PageRun{static_cast<uint64_t>(first - states_.begin()), static_cast<uint64_t>(last - first)};
}

PageRun PageStates::Fetch(uint64_t page, PageState state) {
  if (page == last_fetch_end_) {
    fetch_pages_ = std::min(fetch_pages_ * 2, kFetchPagesMax);
  } else if (!pass_expected_) {
    fetch_pages_ = kFetchPagesMin;
  }
  pass_expected_ = false;
  // From a multiple of the smallest fetch on, so that touches in falling order do not fetch page by page.
  const uint64_t from = page - page % kFetchPagesMin;
  PageRun run{page, 0};
  while (run.first > from && At(run.first - 1) == state) --run.first;
  run.count = Next(page, run.first + fetch_pages_, state).end() - run.first;
  last_fetch_end_ = run.end();
  return run;
}

}  // namespace tessera
