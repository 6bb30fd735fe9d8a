// Sessions that outlive their links: whatever is cut, whenever, every byte and every record arrives, once and in order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/protocol/link/exchange_rounds.h"
#include "tests/protocol/link/resumable_mirror.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// Sanitizers slow this down by an order of magnitude.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kLess = 10;
#else
constexpr int kLess = 1;
#endif

constexpr uint64_t kShortGraceNs = 300'000'000;

// Frames that begin a session, and are not cut.
constexpr int64_t kHandshakeFrames = 3;

// Both ends of a channel with staging for transfers of several frames.
class Session {
 public:
  static constexpr uint64_t kHalfBytes = ExchangeRounds::kHalfBytes;

  explicit Session(ResumableMirror::Cuts cuts, uint64_t grace_ns = 20'000'000'000) {
    auto [client_socket, mirror_client] = SocketPair();
    auto [mirror_server, server_socket] = SocketPair();
    mirror_ = std::make_unique<ResumableMirror>(std::move(mirror_client), std::move(mirror_server), std::move(cuts), grace_ns);
    std::thread serving([&, socket = std::move(server_socket)]() mutable { server_ = ServeOne(std::move(socket)).value(); });
    ClientHello hello = TestHello();
    hello.sizes.staging_bytes = ExchangeRounds::kStagingBytes;
    ServerWelcome welcome;
    client_ = Channel::Attach(std::move(client_socket), hello, &welcome, Soon()).value();
    serving.join();
  }
  ~Session() {
    if (client_ != nullptr) client_->Leave();
    mirror_->Join();
  }

  Channel& client() { return *client_; }
  Channel& server() { return *server_; }
  ResumableMirror& mirror() { return *mirror_; }

  void Exchange(uint64_t rounds, uint64_t bytes_max, uint64_t seed) {
    ExchangeRounds(client(), server()).Run(rounds, bytes_max, seed);
  }

 private:
  std::unique_ptr<ResumableMirror> mirror_;
  std::unique_ptr<Channel> client_, server_;
};

// The first link is cut after its first frame, after its second, ... until there are no more; what lay in the cable arrives or
// does not.
TEST(Resume, AfterEverySingleFrame) {
  for (const bool lose : {false, true}) {
    int64_t frames = 0;
    for (bool cut = true; cut; frames += kLess) {
      Session session([&](int link) { return link == 0 ? Cut{kHandshakeFrames + frames, lose} : Cut{}; });
      ASSERT_NO_FATAL_FAILURE(session.Exchange(10, Session::kHalfBytes, 3)) << frames;
      cut = session.mirror().links() > 1;
    }
    EXPECT_GE(frames, 20);  // several for each range of megabytes
  }
}

// Links that last a few frames, among them ones that end before both sides have said where they are.
TEST(Resume, ThousandsOfCutsAtRandom) {
  constexpr int kCuts = 6'000 / kLess;
  int cuts = 0;
  for (uint32_t seed = 1; cuts < kCuts; ++seed) {
    std::minstd_rand random(seed);
    Session session([&random](int link) {
      const bool lose = random() % 2 == 0;
      return Cut{(link == 0 ? kHandshakeFrames : 0) + static_cast<int64_t>(random() % 24), lose};
    });
    ASSERT_NO_FATAL_FAILURE(session.Exchange(300, seed % 4 == 0 ? Session::kHalfBytes : 2000, seed)) << seed;
    cuts += session.mirror().links() - 1;
  }
}

// Small records alone, rings full: what the far reader has not read is not given back, cut or not.
TEST(Resume, FullRings) {
  const int64_t frames = 4;
  Session session([&](int link) { return Cut{kHandshakeFrames + frames, link % 2 == 0}; });
  constexpr uint64_t kCount = 20'000;
  std::thread producer(
      [&] { EXPECT_TRUE(ProduceTestRecords(session.client().commands_out(), kCount, session.client().stop()).ok()); });
  const Status status = ConsumeTestRecords(session.server().commands_in(), kCount,
                                           session.client().commands_out().record_bytes_max(), session.server().stop());
  producer.join();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(session.mirror().links(), 2);
}

// The end of a session arrives, behind everything else, though the link was cut just then.
TEST(Resume, TheEndArrives) {
  for (int64_t frames = 0; frames < 12; ++frames) {
    Session session([&](int link) { return link == 0 ? Cut{kHandshakeFrames + frames, frames % 2 == 0} : Cut{}; });
    for (uint64_t i = 1; i <= 50; ++i) {
      ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(i), session.client().stop()).ok());
    }
    session.client().Leave();
    for (uint64_t i = 1; i <= 50; ++i) {
      ASSERT_EQ(NextValue(session.server().commands_in(), session.server().stop()).value(), i);
    }
    EXPECT_EQ(NextValue(session.server().commands_in(), session.server().stop()).status().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(session.server().peer_left());
    session.mirror().Join();
    EXPECT_TRUE(session.mirror().client_why().ok());
  }
}

// A client that has heard it does not come back to say so: the server's side may wait for it until the grace time is over.
TEST(Resume, AServersEndArrives) {
  for (int64_t frames = 0; frames < 6; ++frames) {
    Session session([&](int link) { return link == 0 ? Cut{kHandshakeFrames + frames, frames % 2 == 0} : Cut{}; }, kShortGraceNs);
    for (uint64_t i = 1; i <= 20; ++i) {
      ASSERT_TRUE(Append(session.server().replies_out(), TestRecord(i), session.server().stop()).ok());
    }
    session.server().Fail(Status(StatusCode::kResourceExhausted, "no memory left"));
    for (uint64_t i = 1; i <= 20; ++i) {
      ASSERT_EQ(NextValue(session.client().replies_in(), session.client().stop()).value(), i);
    }
    const Status status = session.client().replies_in().Wait(Soon(), session.client().stop());
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("no memory left"));
  }
}

// A gate in the way of every link but the first.
class Gate {
 public:
  Cut Pass(int link, int64_t frames) {
    if (link == 0) return Cut{kHandshakeFrames + frames, true};
    waits_ = true;
    MutexLock lock(mutex_);
    while (!open_) changed_.wait(mutex_);
    return Cut{};
  }
  void AwaitWaiting() const {
    while (!waits_) std::this_thread::yield();
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::atomic<bool> waits_{false};
  Mutex mutex_;
  ConditionVariable changed_;
  bool open_ GUARDED_BY(mutex_) = false;
};

TEST(Resume, WhoLeavesWithoutALinkIsHeardWhenThereIsOne) {
  Gate gate;
  Session session([&](int link) { return gate.Pass(link, 0); });
  ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(1), session.client().stop()).ok());
  gate.AwaitWaiting();
  ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(2), session.client().stop()).ok());
  session.client().Leave();
  EXPECT_FALSE(session.server().commands_in().HasRecord());
  gate.Open();
  EXPECT_EQ(NextValue(session.server().commands_in(), session.server().stop()).value(), 1u);
  EXPECT_EQ(NextValue(session.server().commands_in(), session.server().stop()).value(), 2u);
  EXPECT_FALSE(NextValue(session.server().commands_in(), session.server().stop()).ok());
  EXPECT_TRUE(session.server().peer_left());
}

// More messages of the socket than are kept: who offers segments waits for the link, and none is lost.
TEST(Resume, MoreMessagesThanAreKept) {
  constexpr uint32_t kOffers = 2'000;
  Gate gate;
  Session session([&](int link) { return gate.Pass(link, 0); });
  ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(1), session.client().stop()).ok());
  gate.AwaitWaiting();
  std::atomic<uint32_t> offered{0};
  uint32_t last = 0;
  std::thread offering([&] {
    for (; offered < kOffers; ++offered) {
      Result<uint32_t> id = session.client().OfferSegment(SegmentKind::kHostMemory, kPageBytes, MapPlacement::Anywhere());
      ASSERT_TRUE(id.ok()) << id.status().message();
      last = *id;
    }
    ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(2), session.client().stop()).ok());
  });
  while (offered < 1'000) std::this_thread::yield();
  gate.Open();
  for (uint64_t value = 1; value <= 2; ++value) {
    // The server's socket holds less than what comes.
    while (!session.server().commands_in().HasRecord()) {
      ASSERT_TRUE(session.server().ProcessSocket().ok());
      std::this_thread::yield();
    }
    EXPECT_EQ(NextValue(session.server().commands_in(), session.server().stop()).value(), value);
  }
  offering.join();
  for (uint32_t id = 2; id <= last; id += 2) ASSERT_NE(session.server().Resolve(id, 0, 1).data(), nullptr) << id;
}

TEST(Resume, AfterTheGraceTimeBothSidesAreTold) {
  Gate gate;
  Session session([&](int link) { return gate.Pass(link, 0); }, kShortGraceNs);
  ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(1), session.client().stop()).ok());
  const Status server = session.server().answers_in().Wait(Soon(), session.server().stop());
  EXPECT_EQ(server.code(), StatusCode::kUnavailable);
  EXPECT_THAT(server.message(), HasSubstr("did not come back within 0 s"));
  gate.Open();
  const Status client = session.client().replies_in().Wait(Soon(), session.client().stop());
  EXPECT_EQ(client.code(), StatusCode::kUnavailable);
}

TEST(Resume, StoppingDoesNotWaitForALink) {
  Session session([&](int link) { return link == 0 ? Cut{kHandshakeFrames, true} : Cut{0, true}; });
  ASSERT_TRUE(Append(session.client().commands_out(), TestRecord(1), session.client().stop()).ok());
  session.mirror().Abort();
  session.mirror().Join();
  EXPECT_EQ(session.client().replies_in().Wait(Soon(), session.client().stop()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(session.server().answers_in().Wait(Soon(), session.server().stop()).code(), StatusCode::kUnavailable);
}

// A server's host, and a client's host that says what the test wants.
class HandMade {
 public:
  static constexpr uint64_t kGraceNs = 20'000'000'000;

  HandMade() {
    std::tie(mirror_server_, server_socket_) = SocketPair();
    link_ = Connect();
    std::thread serving([this] { server_ = ServeOne(std::move(server_socket_)).value(); });
    ClientHello hello = TestHello();
    hello.mirrored = true;
    Encoder encoder;
    hello.Encode(encoder);
    EXPECT_TRUE(link_->Send({FrameKind::kControl, 0, encoder.size(), 0, 0}, encoder.bytes()).ok());
    EXPECT_EQ(Take(*link_), FrameKind::kResume);
    offer_ = ResumeOffer::Decode(payload_).value();
    EXPECT_EQ(Take(*link_), FrameKind::kControl);
    serving.join();
  }
  ~HandMade() {
    server_.reset();
    for (auto& link : links_) link->Drop();
    {
      MutexLock lock(mutex_);
      over_ = true;
      if (relay_ != nullptr) relay_->Abort();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  // A link to the server's host.
  std::shared_ptr<Link> Connect() {
    auto [near, far] = MakeInProcessLink();
    links_.push_back(std::move(near));
    threads_.emplace_back([this, far = std::shared_ptr<Link>(std::move(far))] {
      Result<std::unique_ptr<Relay>> relay = Relay::AtServer(
          [this](uint64_t) -> Result<UniqueFd> { return std::move(mirror_server_); }, far, &returning_, "", Soon());
      if (!relay.ok()) return;
      {
        MutexLock lock(mutex_);
        relay_ = relay->get();
        if (over_) relay_->Abort();
      }
      (void)(*relay)->Run().ok();
      MutexLock lock(mutex_);
      relay_ = nullptr;
    });
    return links_.back();
  }
  // The next frame's kind, probes apart; kNone at the end. What it brought is in payload().
  FrameKind Take(Link& link) {
    for (;;) {
      Result<FrameHeader> header = link.Receive([this](const FrameHeader& header) -> Result<std::span<std::byte>> {
        payload_.resize(header.bytes);
        return std::span(payload_);
      });
      if (!header.ok()) return FrameKind::kNone;
      if (header->kind != FrameKind::kProbe) return header->kind;
    }
  }
  const std::vector<std::byte>& payload() const { return payload_; }
  // Comes back on a new link, saying this.
  std::shared_ptr<Link> ComeBack(const ResumeState& state) {
    const std::shared_ptr<Link> link = Connect();
    const std::vector<std::byte> bytes = state.Encode();
    EXPECT_TRUE(link->Send({FrameKind::kResume, 0, bytes.size(), 0, 0}, bytes).ok());
    return link;
  }
  // What is true at the beginning.
  ResumeState State() const { return {offer_.token, 0, 0, {{static_cast<uint32_t>(TransferRing::kReplies), 0, 0, 0}}}; }
  std::string Refusal(Link& link) {
    if (Take(link) != FrameKind::kControl) return "no refusal";
    Result<ServerRefusal> refusal = ServerRefusal::Decode(payload_);
    return refusal.ok() ? refusal->sentence : "no refusal";
  }
  Channel& server() { return *server_; }
  Link& first() { return *link_; }
  const ResumeOffer& offer() const { return offer_; }

 private:
  ReturningLinks returning_{kGraceNs};
  UniqueFd mirror_server_, server_socket_;
  std::unique_ptr<Channel> server_;
  std::vector<std::byte> payload_;
  ResumeOffer offer_;
  std::shared_ptr<Link> link_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  Relay* relay_ GUARDED_BY(mutex_) = nullptr;
  bool over_ GUARDED_BY(mutex_) = false;
};

TEST(ResumeByHand, TheOfferSaysHowLong) {
  HandMade hand;
  EXPECT_EQ(hand.offer().grace_ms, HandMade::kGraceNs / 1'000'000);
  EXPECT_FALSE(hand.offer().token.Equals(ResumeToken{}));
}

// Though the server's side has not noticed that the first link is lost.
TEST(ResumeByHand, ALinkThatComesBackFencesTheOneBefore) {
  HandMade hand;
  const auto link = hand.ComeBack(hand.State());
  EXPECT_EQ(hand.Take(*link), FrameKind::kResume);
  ASSERT_TRUE(Append(hand.server().replies_out(), TestRecord(1), hand.server().stop()).ok());
  EXPECT_EQ(hand.Take(*link), FrameKind::kRing);
  EXPECT_EQ(hand.Take(hand.first()), FrameKind::kNone);
  // Told again where the session is: the record has not been acknowledged as received.
  const auto again = hand.ComeBack(hand.State());
  EXPECT_EQ(hand.Take(*again), FrameKind::kResume);
  EXPECT_EQ(hand.Take(*again), FrameKind::kRing);
  EXPECT_EQ(hand.Take(*link), FrameKind::kNone);
}

TEST(ResumeByHand, AnotherTokenFindsNoSession) {
  HandMade hand;
  ResumeState state = hand.State();
  state.token = ResumeToken::Mint();
  EXPECT_THAT(hand.Refusal(*hand.ComeBack(state)), HasSubstr("the session is over"));
  EXPECT_EQ(hand.Take(*hand.ComeBack(hand.State())), FrameKind::kResume);  // it is not
}

TEST(ResumeByHand, PositionsThatCannotBeEndTheSession) {
  const std::function<void(ResumeState&)> lies[] = {
      [](ResumeState& state) { state.rings[0].received = 64; }, [](ResumeState& state) { state.rings[0] = {1, 64, 64, 64}; },
      [](ResumeState& state) { state.rings[0].id = 0; },        [](ResumeState& state) { state.rings.clear(); },
      [](ResumeState& state) { state.transfers = 1; },          [](ResumeState& state) { state.controls = 1; },
  };
  for (const auto& lie : lies) {
    HandMade hand;
    ResumeState state = hand.State();
    lie(state);
    const auto link = hand.ComeBack(state);
    EXPECT_NE(hand.Refusal(*link), "no refusal");
    EXPECT_EQ(hand.server().commands_in().Wait(Soon(), hand.server().stop()).code(), StatusCode::kProtocolViolation);
    EXPECT_THAT(hand.Refusal(*hand.ComeBack(hand.State())), HasSubstr("the session is over"));
  }
}

TEST(ReturningLinks, TheLatestLinkOfTheSamePeerCounts) {
  ReturningLinks returning(1'000'000'000);
  ResumeToken token;
  auto [first, unused] = MakeInProcessLink();
  auto supply = returning.Admit(std::move(first), "host-a", &token);
  const std::vector<std::byte> said = ResumeState{token, 0, 0, {}}.Encode();
  auto [one, one_far] = MakeInProcessLink();
  auto [two, two_far] = MakeInProcessLink();
  auto [three, three_far] = MakeInProcessLink();
  EXPECT_TRUE(returning.Return(std::move(one), said, "host-a").ok());
  EXPECT_TRUE(returning.Return(std::move(two), said, "host-a").ok());
  EXPECT_EQ(returning.Return(std::move(three), said, "host-b").code(), StatusCode::kNotFound);
  EXPECT_EQ(one_far->Send({FrameKind::kProbe, 0, 0, 0, 0}, {}).code(), StatusCode::kUnavailable);
  Result<NextLink> next = supply->Next(Soon());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->said, said);
  EXPECT_TRUE(two_far->Send({FrameKind::kProbe, 0, 0, 0, 0}, {}).ok());
  EXPECT_EQ(supply->Next(MonotonicNs()).status().code(), StatusCode::kTimedOut);
  supply.reset();
  auto [four, four_far] = MakeInProcessLink();
  EXPECT_EQ(returning.Return(std::move(four), said, "host-a").code(), StatusCode::kNotFound);
}

TEST(ReturningLinks, WithoutGraceNothingComesBack) {
  ReturningLinks returning(0);
  ResumeToken token;
  EXPECT_EQ(returning.Admit(nullptr, "", &token), nullptr);
}

TEST(Reconnecting, TriesAgainUntilTheDeadline) {
  int calls = 0;
  auto supply = MakeReconnecting([&](uint64_t) -> Result<std::unique_ptr<Link>> {
    if (++calls < 4) return Status(StatusCode::kUnavailable, "nobody listens");
    return std::move(MakeInProcessLink().first);
  });
  EXPECT_TRUE(supply->Next(Soon()).ok());
  EXPECT_EQ(calls, 4);
  auto hopeless = MakeReconnecting(
      [](uint64_t) -> Result<std::unique_ptr<Link>> { return Status(StatusCode::kUnavailable, "nobody listens"); });
  const Status status = hopeless->Next(MonotonicNs() + 30'000'000).status();
  EXPECT_EQ(status.code(), StatusCode::kTimedOut);
  EXPECT_EQ(status.message(), "nobody listens");
  auto other =
      MakeReconnecting([](uint64_t) -> Result<std::unique_ptr<Link>> { return Status(StatusCode::kVersionMismatch, "99"); });
  EXPECT_EQ(other->Next(Soon()).status().code(), StatusCode::kVersionMismatch);
  auto stopped =
      MakeReconnecting([&](uint64_t) -> Result<std::unique_ptr<Link>> { return Status(StatusCode::kUnavailable, ""); });
  std::thread stopping([&] { stopped->Stop(); });
  EXPECT_EQ(stopped->Next(Soon()).status().code(), StatusCode::kUnavailable);
  stopping.join();
}

TEST(ResumeMessages, EveryTruncationIsMalformed) {
  const std::vector<std::byte> state = ResumeState{ResumeToken::Mint(), 1, 2, {{0, 3, 2, 1}, {2, 6, 5, 4}}}.Encode();
  const std::vector<std::byte> offer = ResumeOffer{ResumeToken::Mint(), 30'000}.Encode();
  EXPECT_EQ(ResumeState::Decode(state)->rings[1].visible, 5u);
  EXPECT_EQ(ResumeOffer::Decode(offer)->grace_ms, 30'000u);
  for (size_t size = 0; size < state.size(); ++size) EXPECT_FALSE(ResumeState::Decode(std::span(state).first(size)).ok());
  for (size_t size = 0; size < offer.size(); ++size) EXPECT_FALSE(ResumeOffer::Decode(std::span(offer).first(size)).ok());
  EXPECT_FALSE(ResumeState::Decode(ResumeState{{}, 0, 0, {{0, 1, 2, 0}}}.Encode()).ok());
  EXPECT_FALSE(ResumeOffer::Decode(ResumeOffer{{}, ResumeOffer::kGraceMsMax + 1}.Encode()).ok());
}

}  // namespace
}  // namespace tessera
