// Finds the changes between two lists of a pool. Plain values; one thread.
//
//   PoolChanges changes;
//   print(changes.Of({.key = "server", .list = ServersAsJson(list)["servers"], .rows = ServersRows(list, false)}, "text"));
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera {

// A list in its present state.
struct PoolView {
  std::string word{};                            // "servers"
  std::string key{};                             // the field that identifies an object
  nlohmann::json list{};                         // of objects
  std::vector<std::vector<std::string>> rows{};  // the head, and a row for each object
};

// The whole list in a form of --output: "text" and "wide", "json", "yaml".
std::string TextOf(const PoolView& view, const std::string& output);

class PoolChanges {
 public:
  // Returns the text to print after the earlier output. In text form: the head, once, and the changed rows. In JSON: the
  // changed objects, one a line; in YAML: one document for each. An object that has gone is marked as gone. Empty: nothing has
  // changed.
  std::string Of(const PoolView& view, const std::string& output);

 private:
  bool has_head_ = false;
  std::map<std::string, nlohmann::json> objects_;         // by key
  std::map<std::string, std::vector<std::string>> rows_;  // by key
};

}  // namespace tessera
