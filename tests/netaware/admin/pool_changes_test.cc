#include "netaware/admin/pool_changes.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Servers with a state each: "a=free b=full".
PoolView View(const std::vector<std::pair<std::string, std::string>>& servers, int hidden = 0) {
  PoolView view{.word = "servers", .key = "server", .list = nlohmann::json::array(), .rows = {{"SERVER", "STATE"}}};
  for (const auto& [name, state] : servers) {
    view.list.push_back({{"server", name}, {"state", state}, {"hidden", hidden}});
    view.rows.push_back({name, state});
  }
  return view;
}

TEST(PoolChanges, TextIsTheHeadOnceAndThenRowsThatChanged) {
  PoolChanges changes;
  EXPECT_EQ(changes.Of(View({}), "text"), "SERVER  STATE\n");
  EXPECT_EQ(changes.Of(View({{"a", "free"}, {"b", "free"}}), "text"), "a       free\nb       free\n");
  EXPECT_EQ(changes.Of(View({{"a", "free"}, {"b", "free"}}, 1), "text"), "");  // no column has it
  EXPECT_EQ(changes.Of(View({{"a", "free"}, {"b", "full"}}), "text"), "b       full\n");
  EXPECT_EQ(changes.Of(View({{"b", "full"}}), "text"), "a has gone\n");
  EXPECT_EQ(changes.Of(View({{"a", "free"}, {"b", "full"}}), "text"), "a       free\n");
}

TEST(PoolChanges, ObjectsAreALineOrADocumentEach) {
  PoolChanges json, yaml;
  EXPECT_EQ(json.Of(View({}), "json"), "");
  EXPECT_EQ(json.Of(View({{"a", "free"}}), "json"), R"({"hidden":0,"server":"a","state":"free"})"
                                                    "\n");
  EXPECT_EQ(json.Of(View({{"a", "free"}}), "json"), "");
  EXPECT_EQ(json.Of(View({{"a", "free"}}, 1), "json"), R"({"hidden":1,"server":"a","state":"free"})"
                                                       "\n");
  EXPECT_EQ(json.Of(View({}), "json"), R"({"gone":true,"server":"a"})"
                                       "\n");
  EXPECT_EQ(yaml.Of(View({{"a", "free"}}), "yaml"), "---\nhidden: 0\nserver: a\nstate: free\n");
  EXPECT_EQ(yaml.Of(View({}), "yaml"), "---\ngone: true\nserver: a\n");
}

TEST(PoolChanges, TheWholeListInEachForm) {
  const PoolView view = View({{"a", "free"}});
  EXPECT_EQ(TextOf(view, "wide"), "SERVER  STATE\na       free\n");
  EXPECT_EQ(TextOf(view, "yaml"), "servers:\n  - hidden: 0\n    server: a\n    state: free\n");
  EXPECT_EQ(nlohmann::json::parse(TextOf(view, "json"))["servers"], view.list);
}

}  // namespace
}  // namespace tessera
