// What a placer and a broker send to a node: messages one after another, through their translation to what decides. Input, again
// and again: u8 which, u16 bytes, the message. A ticket that is to be signed begins with "sign".
#include "netaware/node/node_messages.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "netaware/store/memory_store.h"
#include "protocol/ticket/ticket_keys.h"
#include "tests/fuzz/round_trip.h"
#include "tests/fuzz/target.h"

namespace tessera::fuzz {
namespace {

enum Which : uint8_t { kToNode, kVgpus, kCallsDone, kLost };
constexpr uint8_t kWhich = 4;
constexpr int64_t kStepMs = 700;
constexpr char kSign[] = "sign";

const TicketSigner& Signer() {
  static const TicketSigner& signer = *new TicketSigner(TicketSigner::Make().value());
  return signer;
}

class Node : public NodeOut {
 public:
  void Take(uint8_t which, const std::string& bytes) {
    switch (which) {
      case kToNode: Hear(bytes); break;
      case kVgpus: {
        control::v1::VgpuList list;
        if (list.ParseFromString(bytes)) core_->TakeList(VgpusOf(list));
        break;
      }
      case kCallsDone:
        for (const std::string& name : std::exchange(calls_, {})) core_->CallDone(name, Status::Ok(), now());
        break;
      case kLost: bytes.empty() ? core_->BrokerLost() : core_->PlacerLost(); break;
    }
    now_ms_ += kStepMs;
    core_->Turn(now());
    (void)MessageOf(core_->Beat(now())).ByteSizeLong();
    // What is in the ledger is what the next node begins with.
    FUZZ_CHECK(GrantLedger::Open(*store_).ok());
  }
  void AnswerOrder(uint64_t number, const Status& status) override {
    FUZZ_CHECK(MessageOf(number, status).answer().reason().size() <= 8'192);
  }
  void CallBroker(const GrantVgpus::Call& call) override {
    FUZZ_CHECK(GrantOfVgpu(call.vgpu.name).has_value());
    if (call.kind == GrantVgpus::Call::Kind::kCreate) (void)CreateOf(call.vgpu).ByteSizeLong();
    calls_.push_back(call.vgpu.name);
  }
  void AnswerTicket(uint64_t, const Status&, const std::string&) override {}

 private:
  NodeTime now() const { return {now_ms_, now_ms_}; }
  void Hear(const std::string& bytes) {
    control::v1::ToNode message;
    if (!message.ParseFromString(bytes)) return;
    if (message.has_welcome()) {
      NodeWelcome welcome = WelcomeOf(message.welcome());
      // A seed has no key in it, which is new in each process.
      for (std::string& key : welcome.ticket_keys) {
        if (key == kSign) key = Signer().PublicPem();
      }
      (void)core_->Welcomed(welcome, now()).ok();
    }
    if (message.has_clock()) core_->TakeClock(message.clock().now_ms(), now());
    if (!message.has_order()) return;
    NodeOrder order = OrderOf(message.order());
    const std::string_view ticket(reinterpret_cast<const char*>(order.ticket.data()), order.ticket.size());
    if (ticket.starts_with(kSign)) {
      Result<Ticket> content = Ticket::Decode(std::span(order.ticket).subspan(sizeof(kSign) - 1));
      if (content.ok()) order.ticket = Signer().Sign(*content);
    }
    core_->Take(std::move(order));
  }

  const std::unique_ptr<Store> store_ = MakeMemoryStore();
  int64_t now_ms_ = 1'000'000;
  std::vector<std::string> calls_;
  const std::unique_ptr<NodeCore> core_ = NodeCore::Open(*store_, "gpu7", *this, now()).value();
};

class Messages {
 public:
  Messages& Put(Which which, const std::string& bytes = "") {
    input_.Put(static_cast<uint8_t>(which)).Put(static_cast<uint16_t>(bytes.size())).Bytes(std::as_bytes(std::span(bytes)));
    return *this;
  }
  Messages& Order(uint64_t number, control::v1::Order::Kind kind) {
    Ticket ticket{
        .cluster = "c", .server = "gpu7", .holder = "name:alice", .epoch = 3, .issued_ms = 1'000'000, .expires_ms = 2'000'000};
    ticket.grant.fill(std::byte{0xa1});
    ticket.vgpus = {TicketVgpu{.request = 250'000, .limit = 500'000, .memory_bytes = 1 << 20}};
    ticket.vgpus[0].gpu.fill(std::byte{1});
    control::v1::ToNode message;
    control::v1::Order& order = *message.mutable_order();
    order.set_number(number);
    order.set_kind(kind);
    order.set_grant(GrantText(ticket.grant));
    order.set_until_ms(1'060'000);
    const Input content = Encoded(ticket);
    if (kind == control::v1::Order::HOLD)
      order.set_ticket(kSign + std::string(reinterpret_cast<const char*>(content.data()), content.size()));
    return Put(kToNode, message.SerializeAsString());
  }
  const Input& input() const { return input_.input(); }

 private:
  Writer input_;
};

std::string Welcome() {
  control::v1::ToNode message;
  control::v1::Welcome& welcome = *message.mutable_welcome();
  welcome.set_cluster("c");
  welcome.set_epoch(3);
  welcome.add_ticket_keys(kSign);
  welcome.set_now_ms(1'000'000);
  return message.SerializeAsString();
}

std::string List(const std::string& name) {
  control::v1::VgpuList list;
  control::v1::ServerGpu* gpu = list.add_gpus();
  gpu->set_uuid("GPU-01010101-0101-0101-0101-010101010101");
  gpu->set_memory_for_vgpus_bytes(1 << 30);
  gpu->set_context_bytes(1 << 20);
  control::v1::Vgpu* vgpu = list.add_vgpus();
  vgpu->set_name(name);
  vgpu->set_gpu_uuid(gpu->uuid());
  vgpu->set_made_by("api");
  vgpu->set_sessions(2);
  vgpu->mutable_spec()->set_request(0.25);
  return list.SerializeAsString();
}

}  // namespace

void Run(std::span<const std::byte> input) {
  Node node;
  for (Reader in(input); !in.empty();) {
    const uint8_t which = in.Take<uint8_t>() % kWhich;
    const auto bytes = in.Bytes(in.Take<uint16_t>());
    node.Take(which, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

std::vector<Input> Seeds() {
  google::protobuf::SetLogHandler(nullptr);  // a word on stderr for each text that is none
  using control::v1::Order;
  Ticket::Grant grant;
  grant.fill(std::byte{0xa1});
  return {Messages()
              .Put(kVgpus, List("other"))
              .Put(kToNode, Welcome())
              .Order(1, Order::HOLD)
              .Put(kCallsDone)
              .Order(2, Order::CONFIRM)
              .Put(kVgpus, List(GrantVgpuName(grant, 0)))
              .Order(3, Order::RELEASE)
              .Put(kCallsDone)
              .input(),
          Messages()
              .Put(kToNode, Welcome())
              .Order(1, Order::HOLD)
              .Put(kVgpus, List(GrantVgpuName(grant, 0)))
              .Put(kLost)
              .Order(2, Order::CANCEL)
              .Put(kLost, "placer")
              .Put(kToNode, Welcome())
              .Order(1, Order::HOLD)
              .input()};
}

}  // namespace tessera::fuzz
