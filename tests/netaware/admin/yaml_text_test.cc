#include "netaware/admin/yaml_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(YamlText, ListsAndMapsAreBlocks) {
  const nlohmann::json json = {
      {"servers",
       {{{"server", "gpu7"},
         {"gpus", 2},
         {"addresses", {"tls://gpu7:4180"}},
         {"offered", true},
         {"share", 0.25},
         {"nothing", nullptr}},
        {{"parts", nlohmann::json::array()}, {"asked", nlohmann::json::object()}, {"deep", {{"x", {{"y", {1, 2}}}}}}}}}};
  EXPECT_EQ(YamlText(json),
            "servers:\n"
            "  - addresses:\n"
            "      - \"tls://gpu7:4180\"\n"
            "    gpus: 2\n"
            "    nothing: null\n"
            "    offered: true\n"
            "    server: gpu7\n"
            "    share: 0.25\n"
            "  - asked: {}\n"
            "    deep:\n"
            "      x:\n"
            "        \"y\":\n"
            "          - 1\n"
            "          - 2\n"
            "    parts: []\n");
  EXPECT_EQ(YamlText({{"grants", nlohmann::json::array()}}), "grants: []\n");
  EXPECT_EQ(YamlText({{1, 2}, {3}}), "- - 1\n  - 2\n- - 3\n");
}

TEST(YamlText, TextThatWouldBeSomethingElseIsQuoted) {
  for (const char* text : {"gpu7", "NVIDIA H200", "GPU-0a1b-2", "a=b", "not offered (gone)", "yesterday", "x.y/z_w"})
    EXPECT_EQ(YamlText(text), std::string(text) + "\n");
  for (const char* text : {"",           "yes", "No", "TRUE", "null", "Null", "off", "y",  "1",  "1e3", "0x1f", "-1", "1:30",
                           "2026-11-26", ".5",  "~",  "a: b", "a #b", "- a",  "* a", "&a", "!a", "%a",  "@a",   "`a", "[a",
                           "{a",         "a,b", "a]", "? a",  "| a",  "> a",  "'a",  " a", "a ", "a'b", "=",    "<<", "---"})
    EXPECT_EQ(YamlText(text), nlohmann::json(text).dump() + "\n");
  EXPECT_EQ(YamlText("a\"b\\c\nd\te\x1b"), "\"a\\\"b\\\\c\\nd\\te\\u001b\"\n");
  EXPECT_EQ(YamlText("b\xff"), "\"b\xef\xbf\xbd\"\n");
  EXPECT_EQ(YamlText({{"no", 1}, {"a: b", 2}}), "\"a: b\": 2\n\"no\": 1\n");
}

}  // namespace
}  // namespace tessera
