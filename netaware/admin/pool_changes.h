// What of a pool is another than before. Plain values; one thread.
//
//   PoolChanges changes;
//   print(changes.Of({.key = "server", .list = ServersAsJson(list)["servers"], .rows = ServersRows(list, false)}, "text"));
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera {

// A list as it is now.
struct PoolView {
  std::string word{};                            // "servers"
  std::string key{};                             // the field by which one is told from others
  nlohmann::json list{};                         // of objects
  std::vector<std::vector<std::string>> rows{};  // the head, and a row for each object
};

// The whole list in a form of --output: "text" and "wide", "json", "yaml".
std::string TextOf(const PoolView& view, const std::string& output);

class PoolChanges {
 public:
  // What is to be printed behind what was printed before: with text the head once, and rows that are others than before; else
  // objects that are, an object a line, or a document each. One that has gone is told as such. Empty: nothing has changed.
  std::string Of(const PoolView& view, const std::string& output);

 private:
  bool has_head_ = false;
  std::map<std::string, nlohmann::json> objects_;         // by key
  std::map<std::string, std::vector<std::string>> rows_;  // likewise
};

}  // namespace tessera
