// Knows which side has the newest bytes of each page of a managed block. Pure: no memory, no threads.
//
//   kDevice  the device may have newer bytes; this process may not touch the page
//   kShared  both have the same bytes; this process may read the page
//   kHost    this process may have written the page; it may read and write
//
// Also decides how many pages one touch fetches: a few at first, and twice as many each time that touches go on where the last
// fetch ended. So a pass over a block costs few faults, and a lone touch moves little. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

enum class PageState : uint8_t { kDevice, kShared, kHost };

struct PageRun {
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t end() const { return first + count; }
  bool empty() const { return count == 0; }
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

class PageStates {
 public:
  // Pages of one fetch: at first, and at most.
  static constexpr uint64_t kFetchPagesMin = 16;
  static constexpr uint64_t kFetchPagesMax = 1024;

  PageStates(uint64_t pages, PageState initial);

  uint64_t size() const { return states_.size(); }
  PageState At(uint64_t page) const { return static_cast<PageState>(states_[page]); }
  void Set(const PageRun& run, PageState state);
  // Whether this process may touch any page.
  bool any_accessible() const { return counts_[static_cast<int>(PageState::kDevice)] != states_.size(); }

  // The first run of pages in `state` that begins at or after `from`, cut off at `end`. Empty when there is none.
  PageRun Next(uint64_t from, uint64_t end, PageState state) const;
  // The pages to fetch for a touch of `page`, which is in `state`: pages in that state, `page` among them. Remembers the fetch,
  // to recognise a touch that follows it.
  PageRun Fetch(uint64_t page, PageState state);
  // A pass over the block was announced: the next fetches are large.
  void ExpectPass() {
    fetch_pages_ = kFetchPagesMax;
    pass_expected_ = true;
  }

 private:
  std::vector<uint8_t> states_;
  uint64_t counts_[3] = {0, 0, 0};
  uint64_t fetch_pages_ = kFetchPagesMin;
  uint64_t last_fetch_end_ = UINT64_MAX;
  bool pass_expected_ = false;
};

}  // namespace tessera
