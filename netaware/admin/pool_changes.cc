#include "netaware/admin/pool_changes.h"

#include <set>
#include <utility>

#include "netaware/admin/vgpu_text.h"
#include "netaware/admin/yaml_text.h"

namespace tessera {
namespace {

bool IsText(const std::string& output) { return !IsData(output); }

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end + 1 - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::string TextOf(const PoolView& view, const std::string& output) {
  if (IsText(output)) return TableText(view.rows);
  return DataText({{view.word, view.list}}, output);
}

std::string PoolChanges::Of(const PoolView& view, const std::string& output) {
  // The columns of the changed rows are as wide as in the whole table.
  const std::vector<std::string> lines = IsText(output) ? LinesOf(TableText(view.rows)) : std::vector<std::string>();
  std::string text;
  if (IsText(output) && !std::exchange(has_head_, true)) text = lines.front();
  std::set<std::string> there;
  for (size_t i = 0; i < view.list.size(); ++i) {
    const nlohmann::json& object = view.list[i];
    const auto key = object.at(view.key).get<std::string>();
    there.insert(key);
    const auto before = objects_.find(key);
    const bool is_other =
        before == objects_.end() || (IsText(output) ? rows_[key] != view.rows[i + 1] : before->second != object);
    if (is_other) text += IsText(output) ? lines[i + 1] : DataPart(object, output);
    objects_[key] = object;
    rows_[key] = view.rows[i + 1];
  }
  for (auto each = objects_.begin(); each != objects_.end();) {
    if (there.contains(each->first)) {
      ++each;
      continue;
    }
    text += IsText(output) ? each->first + " has gone\n" : DataPart({{view.key, each->first}, {"gone", true}}, output);
    rows_.erase(each->first);
    each = objects_.erase(each);
  }
  return text;
}

}  // namespace tessera
