// What waits for something that comes one at a time: in turn between holders, for each in the order in which it came. So the many
// of one holder make nobody else wait for all of them. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <utility>

namespace tessera {

template <typename Item>
class FairQueue {
 public:
  void Push(const std::string& holder, Item item) {
    const auto found = std::ranges::find(lines_, holder, &Line::holder);
    Line& line = found == lines_.end() ? lines_.emplace_back(Line{holder, {}}) : *found;
    line.items.push_back(std::move(item));
  }

  // Takes the next one of the first holder in turn of whom may(holder) is true; that holder is the last from then on.
  template <typename May>
  std::optional<Item> Pop(const May& may) {
    const auto line = std::ranges::find_if(lines_, [&](const Line& each) { return may(each.holder); });
    if (line == lines_.end()) return std::nullopt;
    std::optional<Item> item(std::move(line->items.front()));
    line->items.pop_front();
    if (line->items.empty()) {
      lines_.erase(line);
    } else {
      lines_.splice(lines_.end(), lines_, line);
    }
    return item;
  }

  // Drops each of which drop(item) is true.
  template <typename Drop>
  void DropIf(const Drop& drop) {
    for (Line& line : lines_) line.items.remove_if(drop);
    lines_.remove_if([](const Line& line) { return line.items.empty(); });
  }

  template <typename Do>
  void ForEach(const Do& act) const {
    for (const Line& line : lines_) {
      for (const Item& item : line.items) act(line.holder, item);
    }
  }

  size_t CountOf(const std::string& holder) const {
    const auto found = std::ranges::find(lines_, holder, &Line::holder);
    return found == lines_.end() ? 0 : found->items.size();
  }
  bool empty() const { return lines_.empty(); }

 private:
  struct Line {
    std::string holder;
    std::list<Item> items;  // never empty
  };
  std::list<Line> lines_;  // who is next is the first
};

}  // namespace tessera
