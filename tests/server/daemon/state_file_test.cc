#include "server/daemon/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

class StateFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/stateXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/below/that/state";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  StateFile Opened() {
    Result<StateFile> state = StateFile::Open(path_);
    EXPECT_TRUE(state.ok()) << state.status().message();
    return std::move(state).value();
  }

  std::string directory_, path_;
};

TEST_F(StateFileTest, WhatIsKeptIsThereAgain) {
  StateFile state = Opened();
  EXPECT_FALSE(state.kept());
  EXPECT_EQ(state.next_ns(), kNoDeadline);
  state.Keep({.revision = 17, .text = "[[vgpu]]\nname = 'a'\n"});
  EXPECT_LT(state.next_ns(), kNoDeadline);
  state.Tend(5);
  EXPECT_EQ(state.next_ns(), kNoDeadline);
  const StateFile again = Opened();
  ASSERT_TRUE(again.kept());
  EXPECT_EQ(again.kept()->revision, 17u);
  EXPECT_EQ(again.kept()->text, "[[vgpu]]\nname = 'a'\n");
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(StateFileTest, ManyChangesAreFewWrites) {
  StateFile state = Opened();
  state.Keep({.revision = 1, .text = {}});
  state.Tend(5);
  state.Keep({.revision = 2, .text = {}});
  state.Keep({.revision = 3, .text = {}});
  state.Tend(6);
  EXPECT_EQ(Opened().kept()->revision, 1u);
  EXPECT_EQ(state.next_ns(), 5 + StateFile::kPauseNs);
  state.Tend(5 + StateFile::kPauseNs);
  EXPECT_EQ(Opened().kept()->revision, 3u);
  state.Keep({.revision = 4, .text = {}});
  state.Flush();
  EXPECT_EQ(Opened().kept()->revision, 4u);
}

TEST_F(StateFileTest, WhatCannotBeWrittenIsTriedAgainAndNothingIsHalfWritten) {
  StateFile state = Opened();
  state.Keep({.revision = 1, .text = {}});
  state.Tend(5);
  ASSERT_EQ(mkdir((path_ + ".new").c_str(), 0700), 0);
  state.Keep({.revision = 2, .text = {}});
  state.Tend(2 * StateFile::kPauseNs);
  EXPECT_EQ(Opened().kept()->revision, 1u);
  EXPECT_EQ(state.next_ns(), 2 * StateFile::kPauseNs + StateFile::kFailedPauseNs);
  ASSERT_EQ(rmdir((path_ + ".new").c_str()), 0);
  state.Tend(state.next_ns());
  EXPECT_EQ(Opened().kept()->revision, 2u);
}

TEST_F(StateFileTest, WhatIsNoStateIsRefused) {
  std::filesystem::create_directories(directory_ + "/below/that");
  for (const char* text : {"", "rubbish", "# vGPUs made by 'tessera vgpu', which alone changes them; revision x\n",
                           "# vGPUs made by 'tessera vgpu', which alone changes them; revision 1"}) {
    std::ofstream(path_) << text;
    const Status status = StateFile::Open(path_).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(path_ + " is no state of a tesserad"));
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(StateFile::Open(path_).ok());
}

TEST_F(StateFileTest, WhatWasDamagedLaterIsRefusedAndStays) {
  StateFile state = Opened();
  state.Keep({.revision = 17, .text = "[[vgpu]]\nname = 'a'\n"});
  state.Tend(5);
  std::string whole;
  std::getline(std::ifstream(path_), whole, '\0');
  const auto refuses = [&](const std::string& text) {
    std::ofstream(path_) << text;
    EXPECT_EQ(StateFile::Open(path_).status().code(), StatusCode::kInvalidArgument) << text;
    std::string there;
    std::getline(std::ifstream(path_), there, '\0');
    EXPECT_EQ(there, text);
  };
  for (size_t size = 0; size < whole.size(); ++size) refuses(whole.substr(0, size));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string other = whole;
    other[i] = static_cast<char>(other[i] ^ 1);
    refuses(other);
  }
  refuses(whole + "\n");
  refuses(whole + whole);
  std::ofstream(path_) << whole;
  EXPECT_EQ(Opened().kept()->revision, 17u);
}

TEST_F(StateFileTest, AnswersAreKeptWithIt) {
  StateFile state = Opened();
  state.Keep({.revision = 17, .text = "[[vgpu]]\nname = 'a'\n"});
  state.Keep(AnsweredRequest{"uid:0", "7", 5, std::string("made\0\n", 6)});
  EXPECT_LT(state.next_ns(), kNoDeadline);
  state.Tend(5);
  const StateFile again = Opened();
  EXPECT_EQ(again.kept()->text, "[[vgpu]]\nname = 'a'\n");
  EXPECT_EQ(again.answered(), state.answered());
  ASSERT_NE(again.answered().Find("uid:0", "7"), nullptr);
  // An answer of a change that was none is kept as well.
  StateFile other = StateFile::Open(path_ + "2").value();
  other.Keep(AnsweredRequest{"uid:0", "8", 5, "no"});
  other.Flush();
  EXPECT_NE(StateFile::Open(path_ + "2")->answered().Find("uid:0", "8"), nullptr);
}

TEST_F(StateFileTest, AnswersThatWereDamagedAreRefusedWithTheRest) {
  StateFile state = Opened();
  state.Keep({.revision = 17, .text = "[[vgpu]]\nname = 'a'\n"});
  for (uint64_t i = 0; i < 3; ++i) state.Keep(AnsweredRequest{"uid:0", std::to_string(i), i, "answer"});
  state.Tend(5);
  std::string whole;
  std::getline(std::ifstream(path_), whole, '\xff');
  const auto refuses = [&](const std::string& text) {
    std::ofstream(path_) << text;
    EXPECT_EQ(StateFile::Open(path_).status().code(), StatusCode::kInvalidArgument);
  };
  for (size_t size = 0; size < whole.size(); ++size) refuses(whole.substr(0, size));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string other = whole;
    other[i] = static_cast<char>(other[i] ^ 1);
    refuses(other);
  }
  refuses(whole + whole);
  std::ofstream(path_) << whole;
  EXPECT_EQ(Opened().answered(), state.answered());
}

// Of a release that kept no answers, and of one that keeps what this one does not know.
TEST_F(StateFileTest, AnEarlierFormIsTakenUpAndALaterOneIsRefused) {
  std::filesystem::create_directories(directory_ + "/below/that");
  constexpr const char* kEarlier =
      "# vGPUs made by 'tessera vgpu', which alone changes them; revision 3, 20 bytes, checksum 8999613f4e3f1ecd\n[[vgpu]]\nname "
      "= 'a'\n";
  std::ofstream(path_) << kEarlier;
  StateFile state = Opened();
  EXPECT_EQ(state.kept()->revision, 3u);
  EXPECT_EQ(state.answered().bytes(), 0u);
  // Without answers it is written as that release reads it.
  state.Keep({.revision = 3, .text = "[[vgpu]]\nname = 'a'\n"});
  state.Flush();
  std::string there;
  std::getline(std::ifstream(path_), there, '\xff');
  EXPECT_EQ(there, kEarlier);
  std::ofstream(path_)
      << "# vGPUs made by 'tessera vgpu', which alone changes them; revision 3, 20 bytes, 4 bytes of answers, 1 bytes of "
         "more, checksum 8999613f4e3f1ecd\n[[vgpu]]\nname = 'a'\n12341";
  EXPECT_EQ(StateFile::Open(path_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(StateFileTest, WithoutAFileAllIsInMemory) {
  StateFile state = StateFile::InMemory();
  state.Keep({.revision = 1, .text = "a"});
  state.Keep(AnsweredRequest{"uid:0", "7", 5, "made"});
  EXPECT_EQ(state.next_ns(), kNoDeadline);
  state.Flush();
  EXPECT_EQ(state.kept()->text, "a");
  EXPECT_NE(state.answered().Find("uid:0", "7"), nullptr);
}

TEST_F(StateFileTest, WhereNoFileCanBeIsSaid) {
  EXPECT_TRUE(Opened().Prepare().ok());
  const Status status = StateFile::Open("/proc/nowhere/state").value().Prepare();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("/proc/nowhere/state"));
}

TEST(DefaultStatePath, EachSocketHasItsOwn) {
  setenv("XDG_STATE_HOME", "/x", 1);
  EXPECT_EQ(DefaultStatePath("/run/a%b/s"), "/x/tessera/%2Frun%2Fa%25b%2Fs.vgpus");
  EXPECT_EQ(DefaultStatePath("/run/./s"), DefaultStatePath("/run/s"));
  EXPECT_EQ(DefaultStatePath("/" + std::string(300, 'x')), "");
  unsetenv("XDG_STATE_HOME");
}

}  // namespace
}  // namespace tessera
