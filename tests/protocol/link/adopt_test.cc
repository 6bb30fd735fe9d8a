// A process that goes on with a session, from every half step at which the one before it may have ended (the table in
// carriage.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "protocol/keeper/keeper_line.h"
#include "protocol/link/in_process_link.h"
#include "protocol/relay/carriage.h"
#include "protocol/relay/relay.h"
#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {
namespace {

void Expect(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

// What a keeper does, on the thread of the test.
class HandMadeKeeper {
 public:
  HandMadeKeeper() {
    auto [ours, theirs] = MakeSocketPair().value();
    socket_ = std::move(ours);
    EXPECT_TRUE(
        SendWord(socket_.get(), {.word = KeeperWord::kStart, .session = 1, .value = static_cast<uint64_t>(getppid())}).ok());
    EXPECT_TRUE(SendWord(socket_.get(), {.word = KeeperWord::kAll}).ok());
    line_ = KeeperLine::Open(std::move(theirs)).value();
    prctl(PR_SET_PDEATHSIG, 0);
  }
  KeeperLine& line() { return *line_; }
  // What was given to it, which it then has no more.
  KeptSession Take() {
    for (;;) {
      Result<ReceivedWord> word = ReceiveWord(socket_.get(), 0);
      if (!word.ok()) return std::move(kept_);
      const auto id = static_cast<uint32_t>(word->message.value);
      switch (word->message.word) {
        case KeeperWord::kSession: kept_ = KeptSession::From(std::move(*word)).value(); break;
        case KeeperWord::kSegment: kept_.segments[id] = std::move(word->fds[0]); break;
        case KeeperWord::kForgetSegment: kept_.segments.erase(id); break;
        default: ended_ = true;
      }
    }
  }
  bool ended() {
    (void)Take();
    return ended_;
  }

 private:
  UniqueFd socket_;
  std::unique_ptr<KeeperLine> line_;
  KeptSession kept_;
  bool ended_ = false;
};

// What this thread allocates meanwhile is no leak to AddressSanitizer.
struct LeaksAllowed {
#ifdef __SANITIZE_ADDRESS__
  LeaksAllowed() { __lsan_disable(); }
  ~LeaksAllowed() { __lsan_enable(); }
#else
  LeaksAllowed() {}
#endif
  LeaksAllowed(const LeaksAllowed&) = delete;
  LeaksAllowed& operator=(const LeaksAllowed&) = delete;
};

// A client's host: a program's end of a channel, the process that ends, one that goes on, and the other host by hand.
class Adopted : public testing::Test {
 protected:
  Adopted() {
    auto [client_socket, server_socket] = SocketPair();
    std::thread attaching([&, socket = std::move(client_socket)]() mutable {
      ServerWelcome welcome;
      ClientHello hello = TestHello();
      hello.mirrored = true;
      client_ = Channel::Attach(std::move(socket), hello, &welcome, Soon()).value();
    });
    const ClientHello hello = ReceiveHello(server_socket.get(), kTestSpecHash, Soon()).value();
    ServerWelcome welcome;
    welcome.spec_hash = kTestSpecHash;
    welcome.mirrored = true;
    welcome.sizes = hello.sizes;
    Channel::Files files;
    {
      const LeaksAllowed allowed;  // given up as in a forked child, where maps stay behind
      before_ = Channel::Create(std::move(server_socket), &welcome, Soon(), &files).value();
    }
    attaching.join();
    CarriageTerms terms;
    terms.side = Channel::Side::kServer;
    terms.grace_ms = 20'000;
    terms.token = token_;
    terms.sizes = before_->sizes();
    notes_ = Carriage::Begin(keeper_.line(), terms, *before_, files).value();
    notes_->page().heard.store(1);
  }
  ~Adopted() override {
    if (link_ != nullptr) link_->Drop();
    if (relay_ != nullptr) relay_->Abort();
    if (running_.joinable()) running_.join();
    relay_.reset();
    if (!gone_) before_->AbandonInChild();
  }

  // The socket's next message, as the process before saw it, which left it there.
  SocketMessage Look() { return ReceiveMessage(before_->socket(), kControlMessageBytesMax, Soon(), FromSocket::kLeave).value(); }
  // The process before ends, another one goes on; what it says it has. The other host answers with `theirs`.
  ResumeState GoOn(ResumeState theirs = {}) {
    before_->AbandonInChild();
    gone_ = true;
    Result<std::unique_ptr<Relay>> adopted =
        Relay::Adopt(keeper_.line(), keeper_.Take(), [&](const ResumeToken& token, const std::string&) {
          EXPECT_TRUE(token.Equals(token_));
          return std::make_unique<OneLink>(*this);
        });
    EXPECT_TRUE(adopted.ok()) << adopted.status().message();
    relay_ = std::move(*adopted);
    running_ = std::thread([this] { (void)relay_->Run().ok(); });
    while (link_made_.load() == nullptr) std::this_thread::yield();
    EXPECT_EQ(Take(), FrameKind::kResume);
    const ResumeState ours = ResumeState::Decode(payload_).value();
    theirs.token = token_;
    if (theirs.rings.empty()) theirs.rings = {{0, 0, 0, 0}, {2, 0, 0, 0}};
    const std::vector<std::byte> said = theirs.Encode();
    EXPECT_TRUE(link_->Send({FrameKind::kResume, 0, said.size(), 0, 0}, said).ok());
    return ours;
  }
  // The next frame at the other host, probes apart: its kind, number and payload.
  FrameKind Take() {
    for (;;) {
      Result<FrameHeader> header = link_->Receive([this](const FrameHeader& header) -> Result<std::span<std::byte>> {
        payload_.resize(header.bytes);
        return std::span(payload_);
      });
      if (!header.ok()) return FrameKind::kNone;
      number_ = header->number;
      if (header->kind != FrameKind::kProbe) return header->kind;
    }
  }
  void SendControl(std::span<const std::byte> message, uint64_t number) {
    ASSERT_TRUE(link_->Send({FrameKind::kControl, 0, message.size(), 0, number}, message).ok());
  }
  uint32_t Offer() { return client_->OfferSegment(SegmentKind::kHostMemory, kPageBytes, MapPlacement::Anywhere()).value(); }
  void ExpectOffer(uint32_t id, uint64_t number) {
    ASSERT_EQ(Take(), FrameKind::kControl);
    EXPECT_EQ(number_, number);
    Result<SegmentOffer> offer = SegmentOffer::Decode(payload_);
    ASSERT_TRUE(offer.ok());
    EXPECT_EQ(offer->id, id);
  }

  class OneLink : public LinkSupply {
   public:
    explicit OneLink(Adopted& test) : test_(test) {}
    Result<NextLink> Next(uint64_t) override {
      if (test_.link_made_.load() != nullptr) return Status(StatusCode::kUnavailable, "stopped");
      auto [near, far] = MakeInProcessLink();
      test_.link_ = std::move(far);
      test_.link_made_.store(test_.link_.get());
      return NextLink{std::move(near), {}};
    }
    void Stop() override {}

   private:
    Adopted& test_;
  };

  const ResumeToken token_ = ResumeToken::Mint();
  HandMadeKeeper keeper_;
  std::unique_ptr<Channel> client_, before_;
  std::unique_ptr<Carriage> notes_;  // of the process before
  std::unique_ptr<Relay> relay_;
  std::thread running_;
  std::shared_ptr<Link> link_;
  std::atomic<Link*> link_made_{nullptr};
  std::vector<std::byte> payload_;
  uint64_t number_ = 0;
  bool gone_ = false;
};

class Steps : public Adopted, public testing::WithParamInterface<int> {};

TEST_P(Steps, AnOfferOfThePeerIsPassedOnOnce) {
  const uint32_t id = Offer();
  const SocketMessage message = Look();
  if (GetParam() >= 1) Expect(notes_->KeepFile(id, message.fds[0].get()));
  if (GetParam() >= 2) Expect(notes_->AddSegment(id, kPageBytes));
  if (GetParam() >= 3) Expect(notes_->Record(message.bytes));
  if (GetParam() >= 4) DropMessage(before_->socket());
  GoOn();
  ExpectOffer(id, 1);
  // What the peer writes there is what arrives.
  const auto memory = client_->segments().Find(id);
  memory[17] = std::byte{42};
  ASSERT_TRUE(client_->Publish(id, 17, 1).ok());
  ASSERT_EQ(Take(), FrameKind::kTransfer);
  EXPECT_EQ(payload_, std::vector<std::byte>{std::byte{42}});
  const uint32_t next = Offer();
  ExpectOffer(next, 2);
}

TEST_P(Steps, ASegmentThatThePeerClosesIsClosedOnce) {
  const uint32_t id = Offer();
  const SocketMessage offer = Look();
  ASSERT_TRUE(notes_->KeepFile(id, offer.fds[0].get()).ok());
  ASSERT_TRUE(notes_->AddSegment(id, kPageBytes).ok());
  ASSERT_TRUE(notes_->Record(offer.bytes).ok());
  DropMessage(before_->socket());
  ASSERT_TRUE(client_->CloseSegment(id).ok());
  const SocketMessage message = Look();
  if (GetParam() >= 2) notes_->CloseSegment(id, CarriagePage::Segment::kClosedHere);
  if (GetParam() >= 3) Expect(notes_->Record(message.bytes));
  if (GetParam() >= 4) DropMessage(before_->socket());
  GoOn();
  ExpectOffer(id, 1);
  ASSERT_EQ(Take(), FrameKind::kControl);
  EXPECT_EQ(number_, 2u);
  EXPECT_EQ(SegmentClose::Decode(payload_)->id, id);
  ExpectOffer(Offer(), 3);
}

TEST_P(Steps, AnOfferThatArrivesTwiceHasOneMemory) {
  Encoder encoder;
  SegmentOffer{5, SegmentKind::kHostMemory, kPageBytes, 0, 0}.Encode(encoder);
  const UniqueFd file = CreateSegmentFile("test", kPageBytes).value();
  const int fd = file.get();
  notes_->page().offer_arriving.store(5);
  if (GetParam() >= 1) Expect(notes_->KeepFile(5, fd));
  if (GetParam() >= 2) Expect(notes_->AddSegment(5, kPageBytes));
  if (GetParam() >= 3) Expect(before_->SendControl(encoder.bytes(), std::span(&fd, 1)));
  if (GetParam() >= 4) notes_->page().controls_received.store(1);
  const ResumeState state = GoOn();
  ASSERT_EQ(state.controls, GetParam() >= 4 ? 1u : 0u);
  if (GetParam() < 4) SendControl(encoder.bytes(), 1);
  const std::byte value{42};
  ASSERT_TRUE(link_->Send({FrameKind::kTransfer, 5, 1, 17, 1}, std::span(&value, 1)).ok());
  std::vector<std::byte> record = TestRecord(7);
  const auto size = static_cast<uint32_t>(record.size());
  std::memcpy(record.data(), &size, sizeof(size));  // as the ring it comes from does
  ASSERT_TRUE(
      link_->Send({FrameKind::kRing, static_cast<uint32_t>(TransferRing::kReplies), record.size(), 0, record.size()}, record)
          .ok());
  const Result<uint64_t> arrived = NextValue(client_->replies_in(), client_->stop());
  ASSERT_TRUE(arrived.ok()) << arrived.status().message();
  EXPECT_EQ(arrived.value(), 7u);
  const auto memory = client_->Resolve(5, 17, 1);
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(memory[0], value);
  EXPECT_TRUE(client_->ProcessSocket().ok());  // the second one as well
}

TEST_P(Steps, ThePeersGoodbyeIsPassedOn) {
  ASSERT_TRUE(client_->commands_out().TryAppend(TestRecord(1)));
  client_->Leave();
  const SocketMessage message = Look();
  if (GetParam() >= 1) notes_->RecordGoodbye(message.bytes);
  if (GetParam() >= 2) DropMessage(before_->socket());
  GoOn();
  EXPECT_EQ(Take(), FrameKind::kRing);  // what it said before
  ASSERT_EQ(Take(), FrameKind::kControl);
  EXPECT_EQ(Goodbye::Decode(payload_)->code, StatusCode::kOk);
}

INSTANTIATE_TEST_SUITE_P(EndedBehind, Steps, testing::Range(0, 5));

TEST_F(Adopted, RingBytesThatWereNotPublishedComeAgain) {
  const std::vector<std::byte> record = TestRecord(7);
  before_->replies_out().WriteAt(0, record);
  before_->replies_out().PublishTo(record.size());
  before_->replies_out().WriteAt(record.size(), std::span(record).first(20));
  notes_->page().transfers_received.store(3);
  const ResumeState state = GoOn();
  EXPECT_EQ(state.transfers, 3u);
  ASSERT_EQ(state.rings.size(), 1u);
  EXPECT_EQ(state.rings[0].received, record.size());
  EXPECT_EQ(state.rings[0].visible, record.size());
  EXPECT_EQ(state.rings[0].released, 0u);
}

TEST_F(Adopted, WhatTheOtherHostHasIsNotSentAgain) {
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(client_->commands_out().TryAppend(TestRecord(i)));
  const uint64_t bytes = TestRecord(1).size();
  ResumeState theirs;
  theirs.rings = {{0, bytes + 8, bytes, 0}, {2, 0, 0, 0}};
  GoOn(theirs);
  ASSERT_EQ(Take(), FrameKind::kRing);
  EXPECT_EQ(payload_.size(), 2 * bytes - 8);
  EXPECT_EQ(number_, 3 * bytes);
}

TEST_F(Adopted, AnEndThatWasHeardIsAnEnd) {
  notes_->page().end_heard.store(1);
  before_->AbandonInChild();
  gone_ = true;
  auto relay = Relay::Adopt(keeper_.line(), keeper_.Take(),
                            [&](const ResumeToken&, const std::string&) { return std::make_unique<OneLink>(*this); });
  ASSERT_TRUE(relay.ok());
  EXPECT_FALSE((*relay)->Run().ok());
  EXPECT_EQ(link_, nullptr);
  relay->reset();
  EXPECT_TRUE(keeper_.ended());
}

TEST_F(Adopted, ASessionThatWasOverIsNone) {
  notes_->page().over.store(1);
  auto relay = Relay::Adopt(keeper_.line(), keeper_.Take(), [&](const ResumeToken&, const std::string&) { return nullptr; });
  ASSERT_TRUE(relay.ok());
  EXPECT_EQ(*relay, nullptr);
  EXPECT_TRUE(keeper_.ended());
}

TEST_F(Adopted, WhatCannotBeEndsTheSession) {
  const std::function<void(CarriagePage&)> lies[] = {
      [](CarriagePage& page) { page.magic = 0; },
      [](CarriagePage& page) { page.terms.sizes.command_bytes = 12345; },
      [](CarriagePage& page) { page.terms.peer.back() = 'x'; },
      [](CarriagePage& page) { page.messages_recorded = CarriagePage::kMessagesMax + 1; },
      [](CarriagePage& page) { page.segments_used = SegmentTable::kSegmentsMax + 1; },
      [](CarriagePage& page) { page.goodbye_bytes = CarriagePage::kGoodbyeBytesMax + 1; },
      [](CarriagePage& page) { page.segments_used = 1, page.segments[0].id = 2; },  // nobody has its file
  };
  KeptSession kept = keeper_.Take();
  const CarriagePage& page = notes_->page();
  std::vector<std::byte> good(sizeof(page));
  std::memcpy(good.data(), static_cast<const void*>(&page), good.size());
  for (const auto& lie : lies) {
    std::memcpy(static_cast<void*>(&notes_->page()), good.data(), good.size());
    lie(notes_->page());
    KeptSession copy;
    copy.number = kept.number;
    copy.page.reset(dup(kept.page.get()));
    auto [near, far] = SocketPair();
    copy.socket = std::move(near);
    copy.files = {UniqueFd(dup(kept.files.rings.get())), UniqueFd(dup(kept.files.staging.get()))};
    auto relay = Relay::Adopt(keeper_.line(), std::move(copy), [&](const ResumeToken&, const std::string&) { return nullptr; });
    EXPECT_FALSE(relay.ok());
  }
}

}  // namespace
}  // namespace tessera
