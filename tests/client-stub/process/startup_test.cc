// libcuda.so.1 as a program meets it when no server can be had: one clear sentence, and results that libraries take for
// "no GPU here". The library is the real one, in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Outcome {
  std::string out;
  std::string err;
};

std::string ReadAll(const std::string& path) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "r")) {
    std::array<char, 4096> piece;
    while (const size_t size = std::fread(piece.data(), 1, piece.size(), file)) text.append(piece.data(), size);
    std::fclose(file);
  }
  return text;
}

class Startup : public testing::Test {
 protected:
  Startup() {
    char path[] = "/tmp/tessera-startup-XXXXXX";
    directory_ = mkdtemp(path);
  }
  ~Startup() override {
    for (const char* name : {"/out", "/err", "/socket"}) unlink((directory_ + name).c_str());
    rmdir(directory_.c_str());
  }

  // Runs the program with these variables in front ("A=b C=d").
  Outcome Run(const std::string& environment, const std::string& what = "init") {
    const std::string command = "env -u TESSERA_SERVER -u TESSERA_LOG -u TESSERA_STATS " + environment +
                                " " STARTUP_PROGRAM " " STUB_LIBRARY " " + what + " >" + directory_ + "/out 2>" + directory_ +
                                "/err";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return {ReadAll(directory_ + "/out"), ReadAll(directory_ + "/err")};
  }
  static long Lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

  std::string directory_;
};

// Not initialised, a wrong flag, no device twice, not initialised, and the version this library stands for.
constexpr const char* kNoServer = "3\n1\n100\n100\n3\n0 13000\n";

TEST_F(Startup, SaysThatNoServerIsNamed) {
  const Outcome outcome = Run("");
  EXPECT_EQ(outcome.out, kNoServer);
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("TESSERA_SERVER is not set"));
}

TEST_F(Startup, SaysThatTheSocketDoesNotExist) {
  const Outcome outcome = Run("TESSERA_SERVER=unix:" + directory_ + "/socket");
  EXPECT_EQ(outcome.out, kNoServer);
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr(directory_ + "/socket"));
}

TEST_F(Startup, SaysThatNobodyListens) {
  const int socket_fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory_.c_str());
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(socket_fd);
  const Outcome absent = Run("TESSERA_SERVER=unix:" + directory_ + "/other");
  const Outcome outcome = Run("TESSERA_SERVER=unix:" + directory_ + "/socket");
  EXPECT_EQ(outcome.out, kNoServer);
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr(directory_ + "/socket"));
  EXPECT_NE(outcome.err.substr(outcome.err.find(": ")), absent.err.substr(absent.err.find(": ")));
}

TEST_F(Startup, SaysThatAnAddressCannotBeUsed) {
  EXPECT_THAT(Run("TESSERA_SERVER=tcp://gpu:1").err, testing::HasSubstr("the host gpu of tcp://gpu:1 is not known"));
  EXPECT_THAT(Run("TESSERA_SERVER=gpu").err, testing::HasSubstr("no known scheme"));
  EXPECT_EQ(Run("TESSERA_SERVER=gpu").out, kNoServer);
}

TEST_F(Startup, ThreadsThatInitialiseTogetherGetOneSentence) {
  const Outcome outcome = Run("", "threads");
  EXPECT_EQ(outcome.out, "100\n100\n100\n100\n100\n100\n100\n100\n");
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
}

TEST_F(Startup, ADeviceListThatSelectsNothingIsNoMistake) {
  for (const char* list : {"CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=-1"}) {
    const Outcome outcome = Run(list);
    EXPECT_EQ(outcome.out, kNoServer);
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(Startup, KeepsQuietWhenToldTo) { EXPECT_EQ(Run("TESSERA_LOG=off").err, ""); }

TEST_F(Startup, WritesStatistics) {
  const std::string file = directory_ + "/socket";
  Run("TESSERA_LOG=off TESSERA_STATS=" + file);
  EXPECT_THAT(ReadAll(file), testing::HasSubstr("\"cuInit\": {\"calls\": 3"));
  EXPECT_THAT(Run("TESSERA_LOG=off TESSERA_STATS=1").err, testing::HasSubstr("cuDriverGetVersion"));
}

}  // namespace
