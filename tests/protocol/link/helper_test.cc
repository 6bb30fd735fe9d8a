// A process that opens and connects for one in a sandbox: it does what was named, whatever it is asked, and ends with that one.
#include "protocol/keeper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/base/small_file.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/keeper/keeper_words.h"

namespace tessera {
namespace {

uint64_t InTime() { return MonotonicNs() + 10'000'000'000; }

class HelperTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "helper_" + std::to_string(getpid());
    ASSERT_TRUE(std::filesystem::create_directory(directory_));
    std::ofstream(Path("key")) << "a key";
    std::ofstream(Path("other")) << "a secret";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string TextOf(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  HelperOptions Options() const {
    return {.files = {Path("key"), Path("missing"), ""},
            .places = {{"here", [](uint64_t) -> Result<UniqueFd> { return UniqueFd(open("/dev/zero", O_RDONLY)); }},
                       {"nowhere", [](uint64_t) -> Result<UniqueFd> { return Status(StatusCode::kNotFound, "no such host"); }},
                       {"never",
                        [](uint64_t) -> Result<UniqueFd> {
                          for (;;) pause();
                        }}},
            .acts = {{"replace",
                      [path = Path("certificate")](const std::string& text) {
                        std::ofstream(path) << text;
                        return text == "bad" ? Status(StatusCode::kInvalidArgument, "that is none") : Status::Ok();
                      }}},
            .text_bytes_max = 100};
  }
  std::unique_ptr<HelperLine> Start() const { return std::move(HelperLine::Start(Options())).value(); }

  std::string directory_;
};

TEST_F(HelperTest, OpensItsFilesAndNoOthers) {
  const auto helper = Start();
  Result<UniqueFd> key = helper->OpenFile(Path("key"));
  ASSERT_TRUE(key.ok()) << key.status().message();
  EXPECT_EQ(ReadSmallFile(*key, "key", 100).value(), "a key");
  EXPECT_EQ(write(key->get(), "x", 1), -1);
  EXPECT_EQ(helper->OpenFile(Path("missing")).status().code(), StatusCode::kNotFound);
  for (const std::string& path : {Path("other"), std::string("/etc/shadow"), std::string(), Path("./key")})
    EXPECT_EQ(helper->OpenFile(path).status().code(), StatusCode::kPermissionDenied) << path;
}

TEST_F(HelperTest, ConnectsToItsPlacesAndNoOthers) {
  const auto helper = Start();
  EXPECT_TRUE(helper->Dial("here", InTime()).ok());
  EXPECT_EQ(helper->Dial("nowhere", InTime()).status().message(), "no such host");
  for (const char* place : {"", "elsewhere", "unix:/run/tessera/tessera.sock"})
    EXPECT_EQ(helper->Dial(place, InTime()).status().code(), StatusCode::kPermissionDenied) << place;
}

TEST_F(HelperTest, DoesItsActsAndNoOthers) {
  const auto helper = Start();
  const Status replaced = helper->Act("replace", "new");
  EXPECT_TRUE(replaced.ok()) << replaced.message();
  EXPECT_EQ(TextOf("certificate"), "new");
  EXPECT_EQ(helper->Act("replace", "bad").message(), "that is none");
  EXPECT_EQ(helper->Act("replace", std::string(101, 'x')).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(helper->Act("replace").ok());
  for (const char* act : {"", "remove", "here"}) EXPECT_EQ(helper->Act(act).code(), StatusCode::kPermissionDenied) << act;
}

TEST_F(HelperTest, NobodyWaitsForAnotherAndTooManyAreRefused) {
  const auto helper = Start();
  std::vector<UniqueFd> waiting;
  const auto ask_in_vain = [&] {
    std::pair<UniqueFd, UniqueFd> pair = MakeSocketPair().value();
    const int theirs = pair.second.get();
    ASSERT_TRUE(SendWord(helper->fd(), {.word = KeeperWord::kDial, .value = InTime()}, std::span(&theirs, 1), "never").ok());
    waiting.push_back(std::move(pair.first));
  };
  for (int i = 1; i < HelperLine::kAtOnceMax; ++i) ask_in_vain();
  EXPECT_TRUE(helper->Dial("here", InTime()).ok());
  // What was answered may count for a moment longer.
  Result<UniqueFd> refused = UniqueFd();
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    ask_in_vain();
    refused = helper->Dial("here", InTime());
  }
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
}

// What one may say that was taken over.
TEST_F(HelperTest, WhatIsNoQuestionIsPassedOver) {
  const auto helper = Start();
  std::pair<UniqueFd, UniqueFd> pair = MakeSocketPair().value();
  const UniqueFd file(open(Path("other").c_str(), O_RDONLY));
  const int fds[] = {pair.second.get(), file.get(), helper->fd()};
  for (size_t bytes = 1; bytes <= sizeof(KeeperMessage) + 3; ++bytes) {  // nothing at all is the end of the line
    std::vector<std::byte> cut(bytes, std::byte{0x5a});
    const KeeperMessage open_question{.word = KeeperWord::kOpen};
    if (bytes < sizeof(open_question)) std::memcpy(cut.data(), &open_question, bytes);
    for (const size_t count : {0, 1, 2, 3})
      EXPECT_TRUE(SendMessage(helper->fd(), cut, std::span(fds).first(count), InTime()).ok()) << bytes;
  }
  for (const uint32_t word : {0U, 1U, 2U, 9U, 13U, 14U, ~0U}) {
    for (const size_t count : {0, 1, 2, 3})
      EXPECT_TRUE(SendWord(helper->fd(), {.word = static_cast<KeeperWord>(word)}, std::span(fds).first(count), "x").ok());
  }
  // No text for an act, and one in something that is no file.
  const int no_file[] = {pair.second.get(), pair.second.get()};
  for (const size_t count : {1, 2})
    EXPECT_TRUE(SendWord(helper->fd(), {.word = KeeperWord::kAct}, std::span(no_file).first(count), "replace").ok());
  EXPECT_TRUE(helper->OpenFile(Path("key")).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("certificate")));
}

TEST_F(HelperTest, HasNothingOfWhomItHelps) {
  const UniqueFd held[] = {UniqueFd(dup(0)), UniqueFd(dup(0)), UniqueFd(dup(0)), UniqueFd(dup(0)), UniqueFd(dup(0))};
  ASSERT_TRUE(held[4].valid());
  HelperOptions options;
  options.places["who"] = [](uint64_t) -> Result<UniqueFd> {
    std::string open;
    for (int fd = 0; fd < 1024; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) open += std::to_string(fd) + " ";
    }
    open += std::filesystem::read_symlink("/proc/self/fd/2").string();
    return Status(StatusCode::kNotFound, open);
  };
  EXPECT_EQ(HelperLine::Start(options).value()->Dial("who", InTime()).status().message(), "0 1 2 3 4 /dev/null");
}

// The process that is helped is told, and the helper ends with it, but not by a signal that is for it.
TEST_F(HelperTest, EndsWithWhomItHelps) {
  std::pair<UniqueFd, UniqueFd> pair = MakeSocketPair().value();
  const pid_t helped = fork();
  if (helped == 0) {
    HelperOptions options;
    options.places["pid"] = [](uint64_t) -> Result<UniqueFd> { return Status(StatusCode::kNotFound, std::to_string(getpid())); };
    const auto helper = std::move(HelperLine::Start(std::move(options))).value();
    const pid_t pid = std::stoi(helper->Dial("pid", InTime()).status().message());
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) kill(pid, number);
    bool is_well = helper->Dial("pid", InTime()).status().code() == StatusCode::kNotFound;
    pollfd ended = {helper->fd(), 0, 0};
    is_well = is_well && poll(&ended, 1, 0) == 0;
    const std::string said = std::to_string(pid) + (is_well ? "" : " is gone");
    (void)SendMessage(pair.second.get(), std::as_bytes(std::span(said)), {}, InTime()).ok();
    for (;;) pause();
  }
  const SocketMessage said = std::move(ReceiveMessage(pair.first.get(), 100, InTime())).value();
  const std::string pid(reinterpret_cast<const char*>(said.bytes.data()), said.bytes.size());
  EXPECT_EQ(pid.find("gone"), std::string::npos) << pid;
  kill(helped, SIGKILL);
  waitpid(helped, nullptr, 0);
  const auto is_there = [&] {
    std::string state;
    std::ifstream status("/proc/" + pid + "/stat");
    status >> state >> state >> state;
    return !state.empty() && state != "Z";
  };
  for (const uint64_t end_ns = InTime(); is_there() && MonotonicNs() < end_ns;) usleep(10'000);
  EXPECT_FALSE(is_there());
}

TEST_F(HelperTest, ItsEndIsSeen) {
  HelperOptions options;
  options.places["end"] = [](uint64_t) -> Result<UniqueFd> { _exit(3); };
  const auto helper = std::move(HelperLine::Start(std::move(options))).value();
  EXPECT_EQ(helper->Dial("end", InTime()).status().code(), StatusCode::kUnavailable);
  pollfd ended = {helper->fd(), 0, 0};
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
  EXPECT_EQ(helper->OpenFile(Path("key")).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera
