#include "programs/settings_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>

namespace tessera {
namespace {

class SettingsFileTest : public testing::Test {
 protected:
  SettingsFileTest() {
    path_ = testing::TempDir() + "/settings_file_" + std::to_string(getpid()) + ".toml";
    app_.add_option("--listen", listen_)->allow_extra_args(false);
    app_.add_option("--grace", grace_)->check(CLI::Range(0U, 100U));
    app_.add_option("--driver", driver_);
    app_.add_flag("--no-vgpus", no_vgpus_);
    app_.add_option("--worker-fd", worker_)->group("");
    app_.set_version_flag("--version", "1");
  }
  ~SettingsFileTest() override { std::filesystem::remove(path_); }

  void Write(const std::string& text) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), 0644);
  }
  std::vector<std::string> Words(const std::vector<std::string>& said = {}) {
    const Result<std::vector<std::string>> words = SettingsAsWords(app_, path_, said);
    EXPECT_TRUE(words.ok()) << words.status().message();
    return words.ok() ? words.value() : std::vector<std::string>();
  }
  std::string Wrong(const std::string& text) {
    Write(text);
    const Result<std::vector<std::string>> words = SettingsAsWords(app_, path_, {});
    EXPECT_FALSE(words.ok()) << text;
    return words.status().message();
  }

  std::string path_;
  CLI::App app_;
  std::vector<std::string> listen_;
  uint32_t grace_ = 0;
  std::string driver_;
  bool no_vgpus_ = false;
  int worker_ = -1;
};

using WordList = std::vector<std::string>;

TEST_F(SettingsFileTest, ItsLinesAreOptions) {
  Write("listen = [\"/a\", 'tls://b']\ngrace = 3\ndriver = \"--odd\"\nno-vgpus = true\n");
  EXPECT_EQ(Words(), (WordList{"--listen=/a", "--listen=tls://b", "--grace=3", "--driver=--odd", "--no-vgpus"}));
  Write("no-vgpus = false\nlisten = \"/a\"\ngrace = \"3\"\n");
  EXPECT_EQ(Words(), (WordList{"--listen=/a", "--grace=3"}));
}

TEST_F(SettingsFileTest, TheCommandLineCountsInstead) {
  Write("listen = [\"/a\", \"/b\"]\ngrace = 3\nno-vgpus = true\n");
  EXPECT_EQ(Words({"--listen", "/c", "--grace=4"}), (WordList{"--no-vgpus"}));
  EXPECT_EQ(Words({"--no-vgpus=false"}), (WordList{"--listen=/a", "--listen=/b", "--grace=3"}));
}

TEST_F(SettingsFileTest, SaysWhereItsWordsStand) {
  Write("\ngrace = 3\nlisten = [\"/a\",\n\"/b\"]\ndriver = \"x\"\n");
  std::map<std::string, int> lines;
  ASSERT_TRUE(SettingsAsWords(app_, path_, {"--driver", "y"}, &lines).ok());
  EXPECT_EQ(lines, (std::map<std::string, int>{{"grace", 2}, {"listen", 3}}));
}

TEST_F(SettingsFileTest, SettingsAreWhatWasSaidOrTheDefault) {
  app_.get_option("--grace")->capture_default_str();
  const Settings before = {{"driver", {}}, {"grace", {"0"}}, {"listen", {}}, {"no-vgpus", {}}};
  app_.parse(WordList{});
  EXPECT_EQ(SettingsIn(app_), before);
  WordList words = {"--no-vgpus", "/b", "--listen", "/a", "--listen", "3", "--grace"};  // the last is the first
  app_.parse(words);
  const Settings after = {{"driver", {}}, {"grace", {"3"}}, {"listen", {"/a", "/b"}}, {"no-vgpus", {"true"}}};
  EXPECT_EQ(SettingsIn(app_), after);
}

TEST_F(SettingsFileTest, IsNotReadForQuestionsAndForChildren) {
  Write("what is this");
  for (const char* word : {"--help", "-h", "--version", "--worker-fd", "--worker-fd=3"}) EXPECT_EQ(Words({word}), WordList());
}

TEST_F(SettingsFileTest, NeedNotBeThere) {
  EXPECT_EQ(Words(), WordList());
  EXPECT_FALSE(ReadSettingsFile("/nonexistent/file")->has_value());
}

TEST_F(SettingsFileTest, SaysWhereItIsWrong) {
  EXPECT_EQ(Wrong("grace = 1\nlisten = \"/a\"\ndrive = 'x'\n"),
            path_ + ", line 3: there is no key 'drive': the nearest is 'driver'");
  EXPECT_NE(Wrong("worker-fd = 3\n").find("there is no key 'worker-fd'"), std::string::npos);
  EXPECT_NE(Wrong("version = true\n").find("there is no key 'version'"), std::string::npos);
  EXPECT_EQ(Wrong("\ngrace = true\n"),
            path_ + ", line 2: true or false is no value of the key 'grace', which takes a text or a number");
  EXPECT_EQ(Wrong("grace = [\"1\"]\n"),
            path_ + ", line 1: a list is no value of the key 'grace', which takes a text or a number");
  EXPECT_EQ(Wrong("no-vgpus = 1\n"), path_ + ", line 1: a number is no value of the key 'no-vgpus', which takes true or false");
  EXPECT_NE(Wrong("grace = 101\n").find("line 1: the value of the key 'grace' is none: "), std::string::npos);
  EXPECT_NE(Wrong("listen = [\"/a\"").find("the list of the key 'listen' has no end"), std::string::npos);
}

TEST_F(SettingsFileTest, NobodyElseMayChangeIt) {
  Write("grace = 1\n");
  chmod(path_.c_str(), 0646);
  const Result<WordList> words = SettingsAsWords(app_, path_, {});
  EXPECT_EQ(words.status().message(), "the file " + path_ + " can be changed by everybody: chmod o-w " + path_);
}

TEST_F(SettingsFileTest, OneThatIsNamedHasToBeThere) {
  EXPECT_EQ(SettingsNamedIn({"--grace", "1"}), std::nullopt);
  EXPECT_EQ(SettingsNamedIn({"--config", "/a"}), "/a");
  EXPECT_EQ(SettingsNamedIn({"--config=/a"}), "/a");
  EXPECT_EQ(SettingsNamedIn({"--config"}), std::nullopt);
  const Result<WordList> words = SettingsAsWords(app_, path_, {"--config", path_});
  EXPECT_NE(words.status().message().find("cannot read " + path_), std::string::npos) << words.status().message();
}

TEST(SettingsPath, IsTheUsersOrTheHosts) {
  setenv("XDG_CONFIG_HOME", "/x", 1);
  EXPECT_EQ(SettingsPath("tesserad.toml"), "/x/tessera/tesserad.toml");
  unsetenv("XDG_CONFIG_HOME");
  setenv("HOME", "/home/alice", 1);
  EXPECT_EQ(SettingsPath("tesserad.toml"),
            geteuid() == 0 ? "/etc/tessera/tesserad.toml" : "/home/alice/.config/tessera/tesserad.toml");
}

}  // namespace
}  // namespace tessera
