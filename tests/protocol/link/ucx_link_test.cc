// What a link over UCX has beyond other links: what it does to its process, errors of connecting, registered memory.
#include "protocol/link/ucx/ucx_link.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "protocol/link/preamble.h"
#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/ucx/ucx_parts.h"
#include "tests/support/loopback.h"
#include "tests/support/ucx_pair.h"

namespace tessera {
namespace {

using testing::HasSubstr;

LinkAddress At(const std::string& host, uint16_t port = 0) { return {host, port, LinkScheme::kUcx}; }

#define SKIP_WITHOUT_UCX() \
  if (!HaveUcx()) GTEST_SKIP() << "UCX is not installed (libucx0)"

// --- What it does to its process ---

// The machine code of the C library as it is in memory, as one number.
size_t HashOfLibc() {
  size_t hash = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* hash) {
        if (std::string_view(info->dlpi_name).find("/libc.so") == std::string_view::npos) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          const char* begin = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
          *static_cast<size_t*>(hash) ^= std::hash<std::string_view>()({begin, part.p_memsz});
        }
        return 0;
      },
      &hash);
  return hash;
}

// The signals that this process handles, as the kernel tells them.
std::string CaughtSignals() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return line;
  }
  return "";
}

// Exits with 0 when all is as it was. In a process of its own, in which nothing has loaded UCX.
void UseUcxAndLook() {
  std::thread([] {}).join();  // the C library handles a signal of its own once there are threads
  const size_t code = HashOfLibc();
  const std::string signals = CaughtSignals();
  if (code == 0 || signals.empty()) _exit(3);
  if (!HaveUcx()) _exit(0);
  {
    auto [near, far] = MakeUcxPair();
    if (!near || !far || !near->Send({FrameKind::kRing, 0, 0, 0, 0}, {}).ok()) _exit(4);
    if (!far->Receive([](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span<std::byte>(); }).ok()) _exit(5);
  }
  if (HashOfLibc() != code) _exit(6);
  if (CaughtSignals() == signals) _exit(0);
  fprintf(stderr, "before: %s, after: %s\n", signals.c_str(), CaughtSignals().c_str());
  _exit(7);
}

// Nothing here may load UCX: the process of its own begins with the same lines.
TEST(UcxLinkDeathTest, LeavesSignalsAndTheCLibraryAsTheyWere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(UseUcxAndLook(), testing::ExitedWithCode(0), "");
}

// The addresses that sockets of this process listen at, as /proc/net/tcp writes them: "0100007F:1F90".
std::vector<std::string> Listening() {
  std::vector<std::string> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
      if (state != "0A") continue;
      for (int fd = 0; fd < 1024; ++fd) {
        char target[64] = {};
        const std::string name = "/proc/self/fd/" + std::to_string(fd);
        if (readlink(name.c_str(), target, sizeof(target) - 1) > 0 && target == "socket:[" + inode + "]") found.push_back(local);
      }
    }
  }
  return found;
}

// UCX listens for each of its devices: a link that is for this host alone must not be reachable from others.
TEST(UcxListen, ALoopbackAddressOpensNoOtherDevice) {
  SKIP_WITHOUT_UCX();
  Result<std::unique_ptr<LinkListener>> listener = ListenUcx(At("127.0.0.1"), false);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  const std::vector<std::string> addresses = Listening();
  EXPECT_FALSE(addresses.empty());
  for (const std::string& one : addresses) EXPECT_THAT(one, testing::MatchesRegex("......7F:.*")) << one;
}

TEST(UcxLink, TwoEndsThatWaitUseNoProcessor) {
  SKIP_WITHOUT_UCX();
  auto [near, far] = MakeUcxPair();
  const auto wait = [](Link& link) {
    EXPECT_FALSE(link.Receive([](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span<std::byte>(); }).ok());
  };
  std::thread first([&, &near = *near] { wait(near); });
  std::thread second([&, &far = *far] { wait(far); });
  usleep(200'000);  // until what belongs to connecting is done
  const auto used_ns = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  };
  const uint64_t begin_ns = used_ns();
  usleep(1'000'000);
  EXPECT_LT(used_ns() - begin_ns, 50'000'000u);
  near->Close();
  far->Close();
  first.join();
  second.join();
}

// --- Connecting ---

TEST(UcxConnect, EveryFailureHasItsSentence) {
  SKIP_WITHOUT_UCX();
  const LinkAddress closed = ListenUcx(At("127.0.0.1"), false).value()->address();
  Status status = ConnectUcx(closed, false, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("nobody listens at " + closed.Url()));
  status = ConnectUcx(At("no-such-host.invalid", 1), true, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  status = ConnectUcx(At("::1", 1), true, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("no IPv4 address"));
  status = ConnectUcx(At("192.0.2.1", 1), false, Soon()).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("--insecure"));
}

// Whoever takes the connection and says nothing that UCX knows.
TEST(UcxConnect, AListenerThatIsNoUcxIsGivenUp) {
  SKIP_WITHOUT_UCX();
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  const LinkAddress address = At("127.0.0.1", listener->address().port);
  const Status status = ConnectUcx(address, false, MonotonicNs() + 200'000'000).status();
  EXPECT_EQ(status.code(), StatusCode::kTimedOut);
  EXPECT_THAT(status.message(), HasSubstr("no answer from " + address.Url()));
}

TEST(UcxListen, WhereItCannotSaysWhy) {
  SKIP_WITHOUT_UCX();
  Result<std::unique_ptr<LinkListener>> listener = ListenUcx(At("127.0.0.1"), false);
  ASSERT_TRUE(listener.ok());
  EXPECT_THAT(ListenUcx((*listener)->address(), false).status().message(), HasSubstr("somebody listens"));
  EXPECT_EQ(ListenUcx(At("192.0.2.1"), true).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ListenUcx(At("::1"), true).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(ListenUcx(At("0.0.0.0"), false).status().code(), StatusCode::kPermissionDenied);
}

TEST(UcxListen, StrangersEndOnlyTheirOwnConnection) {
  SKIP_WITHOUT_UCX();
  Result<std::unique_ptr<LinkListener>> listener = ListenUcx(At("127.0.0.1"), false);
  ASSERT_TRUE(listener.ok());
  for (const std::string_view words :
       {std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("\0\0\0\0", 4), std::string_view("")}) {
    auto stranger = ConnectTcpSocket({"127.0.0.1", (*listener)->address().port}, false, Soon());
    ASSERT_TRUE(stranger.ok());
    EXPECT_EQ(send(stranger->get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
  }
  std::thread connecting([&] { EXPECT_TRUE(ConnectUcx((*listener)->address(), false, Soon()).ok()); });
  Result<UniqueFd> connection = AwaitConnection(**listener);
  ASSERT_TRUE(connection.ok());
  EXPECT_THAT((*listener)->DescribePeer(connection->get()), HasSubstr("127.0.0.1:"));
  EXPECT_TRUE((*listener)->Finish(std::move(*connection), Soon(), {}).ok());
  connecting.join();
}

TEST(UcxListen, AConnectionThatIsShutDownIsGivenUp) {
  SKIP_WITHOUT_UCX();
  Result<std::unique_ptr<LinkListener>> listener = ListenUcx(At("127.0.0.1"), false);
  std::thread connecting([&] { EXPECT_FALSE(ConnectUcx((*listener)->address(), false, Soon()).ok()); });
  Result<UniqueFd> connection = AwaitConnection(**listener);
  ASSERT_TRUE(connection.ok());
  // Dropped before Finish(): noticed by the next Accept().
  connection->reset();
  EXPECT_EQ((*listener)->Accept().status().code(), StatusCode::kTimedOut);
  connecting.join();
}

TEST(UcxHello, OthersAreToldApart) {
  EXPECT_TRUE(CheckUcxHello("client", {UcxMessageKind::kHello, kLinkVersion, kUcxMagic, {}}).ok());
  EXPECT_EQ(CheckUcxHello("client", {UcxMessageKind::kHello, kLinkVersion, 5, {}}).code(), StatusCode::kProtocolViolation);
  const Status other = CheckUcxHello("gateway", {UcxMessageKind::kHello, 99, kUcxMagic, {}});
  EXPECT_EQ(other.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(other.message(), HasSubstr("gateway speaks link version 99"));
}

// --- Payloads ---

// Large payloads in both directions at once, from and to memory that the link knows, and memory that it does not; the memory is
// forgotten while others are on their way.
TEST(UcxLink, RegisteredMemoryTakesPartInBothDirections) {
  SKIP_WITHOUT_UCX();
  auto [near, far] = MakeUcxPair();
  constexpr uint64_t kFrames = 60;
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(4 * kFrameBytesMax), std::vector<std::byte>(4 * kFrameBytesMax)};
  const auto send = [](Link& link, std::vector<std::byte>& from) {
    for (uint64_t i = 0; i < kFrames; ++i) {
      const auto part = std::span(from).subspan(i % 2 * kFrameBytesMax, i * 50'000 % kFrameBytesMax);
      std::fill(part.begin(), part.end(), static_cast<std::byte>(i));
      ASSERT_TRUE(link.Send({FrameKind::kTransfer, 1, part.size(), 0, i}, part).ok());
      std::fill(part.begin(), part.end(), std::byte{0xee});  // the link does not look at it any more
      if (i == kFrames / 2) link.Forget(from);
    }
  };
  const auto receive = [](Link& link, std::vector<std::byte>& to) {
    for (uint64_t i = 0; i < kFrames; ++i) {
      std::span<std::byte> part;
      Result<FrameHeader> header = link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
        part = std::span(to).subspan((2 + i % 2) * kFrameBytesMax, header.bytes);
        return part;
      });
      ASSERT_TRUE(header.ok());
      ASSERT_EQ(header->number, i);
      for (const std::byte one : part) ASSERT_EQ(one, static_cast<std::byte>(i));
    }
  };
  near->Register(memory[0]);
  far->Register(memory[1]);
  std::vector<std::thread> threads;
  threads.emplace_back([&, &link = *near] { send(link, memory[0]); });
  threads.emplace_back([&, &link = *far] { send(link, memory[1]); });
  threads.emplace_back([&, &link = *near] { receive(link, memory[0]); });
  threads.emplace_back([&, &link = *far] { receive(link, memory[1]); });
  for (std::thread& thread : threads) thread.join();
}

// A sender that waits for its payload to be fetched from its own memory is freed by the end of the link, whichever end ends it.
TEST(UcxLink, AnEndFreesWhoeverWaitsForAPayloadToBeFetched) {
  SKIP_WITHOUT_UCX();
  for (const bool own_end : {true, false}) {
    auto [near, far] = MakeUcxPair();
    std::vector<std::byte> memory(kFrameBytesMax);
    near->Register(memory);
    std::thread sender([&, &near = *near] {
      // Whether it was taken by the other end of the link before that was no more, nobody can tell.
      Status status;
      while (status.ok()) status = near.Send({FrameKind::kTransfer, 1, memory.size(), 0, 1}, memory);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    });
    usleep(20'000);  // as a rule it waits by now; if not, it fails before
    if (own_end) {
      near->Close();
    } else {
      far.reset();
    }
    sender.join();
  }
}

// In a network of its own, whose only cable is cut: neither end says a word any more.
TEST(UcxLink, ASilentHostIsNoticedIdleOrNot) {
  SKIP_WITHOUT_UCX();
  bool possible = true;
  std::thread in_its_own_network([&] {
    possible = unshare(CLONE_NEWNET) == 0 && SetLoopback(true);
    if (!possible) return;
    auto [near, far] = MakeUcxPair();
    auto [sender, receiver] = MakeUcxPair();
    ASSERT_TRUE(SetLoopback(false));
    const uint64_t begin_ns = MonotonicNs();
    std::thread sending([&sender = *sender] {
      const std::vector<std::byte> payload(1000);
      Status status;
      while (status.ok()) status = sender.Send({FrameKind::kRing, 0, payload.size(), 0, 0}, payload);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    });
    const Status status =
        near->Receive([](const FrameHeader&) -> Result<std::span<std::byte>> { return std::span<std::byte>(); }).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("does not answer any more"));
    sending.join();
    EXPECT_LT(MonotonicNs() - begin_ns, (kTcpSilenceMsMax + 7'000) * uint64_t{1'000'000});
  });
  in_its_own_network.join();
  if (!possible) GTEST_SKIP() << "needs to be allowed to make a network namespace";
}

// --- What needs no UCX ---

TEST(UcxInbox, HandsOutInTheOrderOfSending) {
  UcxInbox inbox;
  const auto frame = [](uint64_t bytes) { return UcxInbox::Frame{{FrameKind::kRing, 0, bytes, 0, 0}, nullptr, false}; };
  EXPECT_TRUE(inbox.Add(2, frame(3)).ok());
  EXPECT_FALSE(inbox.HasNext());
  EXPECT_TRUE(inbox.Add(0, frame(1)).ok());
  EXPECT_EQ(inbox.Take().header.bytes, 1u);
  EXPECT_FALSE(inbox.HasNext());
  EXPECT_TRUE(inbox.Add(1, frame(2)).ok());
  EXPECT_EQ(inbox.Take().header.bytes, 2u);
  EXPECT_EQ(inbox.Take().header.bytes, 3u);
  EXPECT_EQ(inbox.taken(), 3u);
  EXPECT_EQ(inbox.taken_bytes(), 6u);
  EXPECT_FALSE(inbox.HasNext());
}

TEST(UcxInbox, TakesNoMoreThanTheWindow) {
  UcxInbox inbox;
  const auto frame = [](uint64_t bytes) { return UcxInbox::Frame{{FrameKind::kRing, 0, bytes, 0, 0}, nullptr, false}; };
  EXPECT_EQ(inbox.Add(0, frame(kFrameBytesMax + 1)).code(), StatusCode::kProtocolViolation);
  EXPECT_EQ(inbox.Add(kUcxWindowFrames, frame(0)).code(), StatusCode::kProtocolViolation);
  EXPECT_TRUE(inbox.Add(kUcxWindowFrames - 1, frame(0)).ok());
  EXPECT_TRUE(inbox.Add(0, frame(0)).ok());
  EXPECT_EQ(inbox.Add(0, frame(0)).code(), StatusCode::kProtocolViolation);  // twice
  inbox.Take();
  EXPECT_EQ(inbox.Add(0, frame(0)).code(), StatusCode::kProtocolViolation);  // taken already
  for (uint64_t i = 1; i <= kUcxWindowBytes / kFrameBytesMax; ++i) EXPECT_TRUE(inbox.Add(i, frame(kFrameBytesMax)).ok());
  EXPECT_EQ(inbox.Add(500, frame(1)).code(), StatusCode::kProtocolViolation);
  EXPECT_TRUE(inbox.Add(500, frame(0)).ok());
  int left = 0;
  while (inbox.Discard().has_value()) ++left;
  EXPECT_EQ(left, 6);
}

TEST(UcxSendBuffer, PiecesNeverOverlap) {
  std::vector<std::byte> memory(1000);
  UcxSendBuffer buffer(memory);
  std::vector<std::span<std::byte>> held;
  size_t taken = 0;
  uint64_t random = 1;
  const auto next = [&random] { return random = random * 6364136223846793005u + 1442695040888963407u, random >> 33; };
  for (int round = 0; round < 20'000; ++round) {
    const std::span<std::byte> piece = buffer.Take(next() % 500 + 1);
    if (!piece.empty()) {
      ++taken;
      ASSERT_GE(piece.data(), memory.data());
      ASSERT_LE(piece.data() + piece.size(), memory.data() + memory.size());
      for (const auto& other : held) {
        ASSERT_TRUE(piece.data() + piece.size() <= other.data() || other.data() + other.size() <= piece.data());
      }
      held.push_back(piece);
    }
    if (!held.empty() && (piece.empty() || next() % 3 == 0)) {
      const size_t which = next() % held.size();
      buffer.GiveBack(held[which].data());
      held.erase(held.begin() + static_cast<ptrdiff_t>(which));
    }
  }
  for (const auto& one : held) buffer.GiveBack(one.data());
  EXPECT_GT(taken, 5000u);
  EXPECT_FALSE(buffer.Take(500).empty());
}

}  // namespace
}  // namespace tessera
