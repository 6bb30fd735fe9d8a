// What jobs and nodes send to a placer: messages one after another, through their translation to what decides. Input, again and
// again: u8 which, u16 bytes, the message. Clocks move on with each.
#include "netaware/service/pool_messages.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/fuzz/target.h"

namespace tessera::fuzz {
namespace {

enum Which : uint8_t { kPlace, kFromNode, kGrant, kLeave };
constexpr uint8_t kWhich = 4;
constexpr int64_t kStepMs = 400;

// Nobody listens, and the store does all at once.
class Quiet : public PlacerCore::Outside {
 public:
  void Send(const std::string&, const PlacerOrder& order) override { (void)MessageOf(order).ByteSizeLong(); }
  void Tell(const GrantView& view) override { FUZZ_CHECK(!view.grant.ask.holder.empty()); }
  void Keep(StoreTransaction transaction, std::optional<GrantId> grant) override {
    for (const StoreChange& change : transaction.changes) {
      FUZZ_CHECK(!change.key.empty() && change.key.size() <= Store::kKeyBytesMax);
      // Else the store would refuse it, or the next placer not begin.
      FUZZ_CHECK(!change.value || change.value->size() <= Store::kValueBytesMax);
      if (change.value) FUZZ_CHECK(!change.key.starts_with(kServerKeys) || ReadServer(*change.value).ok());
      if (change.value) FUZZ_CHECK(!change.key.starts_with(kPlacedKeys) || ReadPlaced(*change.value).ok());
    }
    if (grant) stored.push_back(*grant);
  }
  std::vector<GrantId> stored;
};

class Placer {
 public:
  void Take(uint8_t which, const std::string& bytes) {
    switch (which) {
      case kPlace: Place(bytes); break;
      case kFromNode: Hear(bytes); break;
      case kGrant: End(bytes); break;
      case kLeave:
        for (const auto& [id, gpus] : std::exchange(nodes_, {})) core_.Leave(id);
        break;
    }
    core_.Turn(now_ms_ += kStepMs);
    for (const GrantId& grant : std::exchange(quiet_.stored, {})) core_.Stored(grant, true, now_ms_);
    core_.Turn(now_ms_);
    for (const auto& [id, server] : core_.pool().servers()) {
      for (const Inventory::Gpu& gpu : server.gpus) FUZZ_CHECK(gpu.granted.share <= gpu.is.all.share);
    }
    (void)ServersOf(core_, now_ms_).ByteSizeLong();
  }

 private:
  void Place(const std::string& bytes) {
    control::v1::PlaceRequest request;
    if (!request.ParseFromString(bytes)) return;
    Result<PlacerCore::Ask> ask = AskOf(request, "name:alice");
    if (!ask.ok()) {
      FUZZ_CHECK(GrpcStatusOf(ask.status()).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
      return;
    }
    FUZZ_CHECK(ask->wish.share > 0 && ask->wish.share <= ask->limit && ask->limit <= kWholeShare);
    Result<GrantId> grant = core_.Place(*ask, now_ms_);
    if (!grant.ok()) return;
    const auto view = core_.View(*grant);
    FUZZ_CHECK(view.has_value());
    // What was asked is told as it was.
    Result<PlacerCore::Ask> again = AskOf(MessageOf(*view, core_, true).asked(), "name:alice");
    FUZZ_CHECK(again.ok() && again->wish == ask->wish && again->limit == ask->limit);
  }
  void Hear(const std::string& bytes) {
    control::v1::FromNode message;
    if (!message.ParseFromString(bytes)) return;
    if (message.has_registration()) {
      Result<JoiningNode> node = NodeOf(message.registration());
      if (!node.ok()) return;
      const std::string id = node->server.id;
      const size_t gpus = node->server.gpus.size();
      if (core_.Join(std::move(*node), now_ms_).ok()) nodes_[id] = gpus;
    }
    for (const auto& [id, gpus] : nodes_) {
      if (message.has_answer()) core_.Answered(id, message.answer().number(), message.answer().done(), now_ms_);
      if (!message.has_beat()) continue;
      Result<NodeState> state = NodeStateOf(message.beat(), gpus);
      if (state.ok()) core_.Beat(id, *state, now_ms_);
    }
  }
  void End(const std::string& bytes) {
    Result<GrantId> grant = GrantOf(bytes);
    if (!grant.ok()) return;
    FUZZ_CHECK(GrantText(*grant) == bytes);
    (void)core_.Renew(*grant, now_ms_).ok();
    (void)core_.Release(*grant).ok();
  }

  static TicketSigner Signer() {
    // Made once: each is new.
    static const std::string& pem = *new std::string(TicketSigner::Make().value().PrivatePem());
    return TicketSigner::FromPem(pem).value();
  }

  Quiet quiet_;
  PlacerCore core_{{.cluster = "c"}, Signer(), 1, quiet_};
  int64_t now_ms_ = 1'000'000;
  std::map<std::string, size_t> nodes_;
};

Input Sequence(std::initializer_list<std::pair<Which, std::string>> messages) {
  Writer input;
  for (const auto& [which, bytes] : messages) {
    input.Put(static_cast<uint8_t>(which)).Put(static_cast<uint16_t>(bytes.size()));
    input.Bytes(std::as_bytes(std::span(bytes)));
  }
  return input.input();
}

void FillIn(control::v1::Beat* beat) {
  for (int i = 0; i < 2; ++i) {
    control::v1::GpuOthers* others = beat->add_others();
    others->set_share(0.25 * i);
    others->set_memory_bytes(1 << 20);
  }
  control::v1::NodeGrant* grant = beat->add_grants();
  grant->set_grant(GrantText(tessera::GrantOf("c", "name:alice", "r")));
  grant->set_sessions(1);
}

std::string Registration() {
  control::v1::FromNode message;
  control::v1::Registration& node = *message.mutable_registration();
  node.set_server("gpu7");
  node.set_host("0123456789abcdef");
  node.add_addresses("tls://gpu7:4180");
  for (const char* uuid : {"GPU-01010101-0101-0101-0101-010101010101", "GPU-02020202-0202-0202-0202-020202020202"}) {
    control::v1::NodeGpu* gpu = node.add_gpus();
    gpu->set_uuid(uuid);
    gpu->set_model("H100");
    gpu->set_memory_bytes(1 << 30);
    gpu->set_context_bytes(1 << 20);
  }
  FillIn(node.mutable_state());
  return message.SerializeAsString();
}

std::string Answer(uint64_t number) {
  control::v1::FromNode message;
  message.mutable_answer()->set_number(number);
  message.mutable_answer()->set_done(true);
  return message.SerializeAsString();
}

}  // namespace

void Run(std::span<const std::byte> input) {
  Placer placer;
  for (Reader in(input); !in.empty();) {
    const uint8_t which = in.Take<uint8_t>() % kWhich;
    const auto bytes = in.Bytes(in.Take<uint16_t>());
    placer.Take(which, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

std::vector<Input> Seeds() {
  google::protobuf::SetLogHandler(nullptr);  // a word on stderr for each text that is none
  control::v1::PlaceRequest request;
  request.set_request_id("r");
  request.set_gpus(2);
  request.set_share(0.5);
  request.set_limit(0.75);
  request.set_memory_bytes(1 << 20);
  request.add_models("H100");
  request.set_same_server(true);
  request.set_processes(3);
  request.set_isolation("strict");
  request.set_priority("normal");
  request.set_wait_ms(10'000);
  const std::string place = request.SerializeAsString();
  control::v1::FromNode beat;
  FillIn(beat.mutable_beat());
  const std::string grant = GrantText(tessera::GrantOf("c", "name:alice", "r"));
  // Its first order releases what the node has and nobody knows; the second one holds.
  return {Sequence({{kFromNode, Registration()},
                    {kPlace, place},
                    {kFromNode, Answer(2)},
                    {kFromNode, beat.SerializeAsString()},
                    {kGrant, grant}}),
          Sequence({{kPlace, place}, {kFromNode, Registration()}, {kLeave, ""}, {kFromNode, Registration()}, {kGrant, grant}})};
}

}  // namespace tessera::fuzz
