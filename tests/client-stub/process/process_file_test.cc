// Every process of a run keeps a file of its own.
#include "client-stub/process/process_file.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera {
namespace {

using testing::UnorderedElementsAre;

constexpr uint64_t kLongAgo = 1;
constexpr uint64_t kLater = uint64_t{1} << 62;  // a run that begins in a hundred years: what is there is older

class ProcessFileTest : public testing::Test {
 protected:
  ProcessFileTest() { EXPECT_NE(mkdtemp(directory_.data()), nullptr); }
  ~ProcessFileTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  // The content of each file in the directory.
  std::vector<std::string> Contents() const {
    std::vector<std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      contents.push_back(text.str());
    }
    return contents;
  }

  std::string directory_ = std::filesystem::temp_directory_path() / "process_file.XXXXXX";
};

TEST_F(ProcessFileTest, TheFirstProcessHasTheNameAndALaterOneItsNumber) {
  ASSERT_TRUE(ProcessFile(Path("t"), kLongAgo).Write("first"));
  ASSERT_TRUE(ProcessFile(Path("t"), kLongAgo).Write("second"));
  EXPECT_THAT(Contents(), UnorderedElementsAre("first", "second"));
  EXPECT_TRUE(std::filesystem::exists(Path("t." + std::to_string(getpid()))));
}

TEST_F(ProcessFileTest, WhatIsOfAnEarlierRunIsReplacedWhole) {
  ASSERT_TRUE(ProcessFile(Path("t"), kLongAgo).Write("a long text of the earlier run"));
  ASSERT_TRUE(ProcessFile(Path("t"), kLater).Write("new"));
  EXPECT_THAT(Contents(), UnorderedElementsAre("new"));
}

TEST_F(ProcessFileTest, WithoutARunNothingIsReplaced) {
  std::ofstream(Path("t")) << "somebody's";
  ASSERT_TRUE(ProcessFile(Path("t")).Write("new"));
  EXPECT_THAT(Contents(), UnorderedElementsAre("somebody's", "new"));
}

TEST_F(ProcessFileTest, AnEmptyFileIsNobodys) {
  std::ofstream(Path("t")).close();
  ASSERT_TRUE(ProcessFile(Path("t"), kLongAgo).Write("new"));
  EXPECT_THAT(Contents(), UnorderedElementsAre("new"));
}

TEST_F(ProcessFileTest, TheNumberStandsWhereTheNameSays) {
  const std::string number = std::to_string(getpid());
  ASSERT_TRUE(ProcessFile(Path("t-%p.%p.json"), kLongAgo).Write("one"));
  EXPECT_TRUE(std::filesystem::exists(Path("t-" + number + "." + number + ".json")));
}

TEST_F(ProcessFileTest, ProcessesThatEndTogetherLoseNone) {
  constexpr int kProcesses = 16;
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  for (int i = 0; i < kProcesses; ++i) {
    if (fork() != 0) continue;
    close(gate[1]);
    char byte;
    (void)!read(gate[0], &byte, 1);  // until all are there
    _exit(ProcessFile(Path("t"), kLongAgo).Write(std::to_string(i)) ? 0 : 1);
  }
  close(gate[0]);
  close(gate[1]);
  for (int i = 0; i < kProcesses; ++i) {
    int status = -1;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  std::vector<std::string> expected;
  for (int i = 0; i < kProcesses; ++i) expected.push_back(std::to_string(i));
  EXPECT_THAT(Contents(), testing::UnorderedElementsAreArray(expected));
  EXPECT_TRUE(std::filesystem::exists(Path("t")));
}

TEST_F(ProcessFileTest, WhatIsNoFileIsWrittenAsItIs) {
  EXPECT_TRUE(ProcessFile("/dev/null", kLongAgo).Write("x"));
  EXPECT_FALSE(ProcessFile(Path("nowhere/t"), kLongAgo).Write("x"));
  EXPECT_FALSE(ProcessFile("/dev/full", kLongAgo).Write("x"));
}

}  // namespace
}  // namespace tessera
