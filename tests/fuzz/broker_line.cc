// What comes to a broker over the daemon's line, and files of vGPUs. Input: u8 which, then the bytes.
#include <cstdio>
#include <cstdlib>

#include "server/broker/vgpu_change.h"
#include "server/broker/vgpu_file.h"
#include "server/gate/broker_line.h"
#include "tests/fuzz/round_trip.h"

namespace tessera::fuzz {
namespace {

template <typename Message>
void Check(std::span<const std::byte> bytes) {
  (void)BrokerWordOf(bytes);
  Result<Message> message = Message::Decode(bytes);
  if (message.ok()) CheckSentOn(*message);
}

// What was read is good by itself, and what fits on a GPU can be done.
void CheckFile(std::span<const std::byte> bytes) {
  std::vector<GpusMessage::Uuid> gpus(2);
  gpus[1].fill(std::byte{1});
  Result<VgpuFile> file = ReadVgpuFile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, {gpus, 0.1});
  if (!file.ok()) return;
  std::vector<FileVgpu> first;
  for (const FileVgpu& vgpu : file->vgpus) {
    FUZZ_CHECK(CheckVgpuSpec(vgpu.spec).ok());
    FUZZ_CHECK(vgpu.gpu < gpus.size());
    FUZZ_CHECK(vgpu.spec.name != kDefaultVgpu);
    if (vgpu.gpu == 0) first.push_back(vgpu);
  }
  const PresentVgpu present[] = {{{std::string(kDefaultVgpu), 0, 1, Priority::kNormal}, 1},
                                 {{"train", 0.5, 1, Priority::kNormal}, 1}};
  Result<VgpuChange> change = PlanChange(present, first, {});
  FUZZ_CHECK(!change.ok() || change->removed.empty());
}

// A list that was read has its bounds, and is the same when it is read again.
void CheckAnswered(std::span<const std::byte> bytes) {
  Result<AnsweredRequests> answered = AnsweredRequests::Decode(bytes);
  if (!answered.ok()) return;
  FUZZ_CHECK(answered->bytes() <= AnsweredRequests::kBytesMax);
  CheckSentOn(*answered);
}

AnsweredRequests SomeAnswered() {
  AnsweredRequests answered;
  answered.Add({"uid:7", "id", 5, "made"});
  answered.Add({"name:boss", "id", 6, ""});
  return answered;
}

constexpr Checker kCheckers[] = {Check<GpusMessage>,
                                 Check<VgpuFileMessage>,
                                 Check<VgpuFileAnswer>,
                                 Check<AskMessage>,
                                 Check<AskAnswer>,
                                 Check<CameMessage>,
                                 Check<LeftMessage>,
                                 Check<FoundMessage>,
                                 Check<SeenMessage>,
                                 Check<ReadyMessage>,
                                 Check<AliveMessage>,
                                 Check<FiguresMessage>,
                                 Check<ReportedMessage>,
                                 Check<EndMessage>,
                                 Check<KeptMessage>,
                                 Check<AnsweredMessage>,
                                 Check<ToldMessage>,
                                 CheckAnswered,
                                 CheckFile,
                                 CheckFile,
                                 CheckFile};

Input Text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Input(bytes.begin(), bytes.end());
}

}  // namespace

void Run(std::span<const std::byte> input) { RunOneOf(kCheckers, input); }

std::vector<Input> Seeds() {
  GpusMessage gpus;
  gpus.uuids.resize(2);
  const Input messages[] = {Encoded(gpus),
                            Encoded(VgpuFileMessage{"vgpus.toml", 3, 1234}),
                            Encoded(VgpuFileAnswer{3, StatusCode::kInvalidArgument, "line 7: limit 2 is 1 above 1"}),
                            Encoded(AskMessage{7, "a+b", "uid:1000"}),
                            Encoded(AskAnswer{7, StatusCode::kOk, "", {0, 1}}),
                            Encoded(CameMessage{9, 4711, "train"}),
                            Encoded(LeftMessage{9}),
                            Encoded(FoundMessage{9, 1}),
                            Encoded(SeenMessage{{{9, 1, 5}}}),
                            Encoded(ReadyMessage{"0.1.0"}),
                            Encoded(AliveMessage{}),
                            Encoded(FiguresMessage{{{0, "fair", "free", 0}}, {}}),
                            Encoded(ReportedMessage{5, {{3, 1, 100, 70}}}),
                            Encoded(EndMessage{9, 10}),
                            Encoded(KeptMessage{3, "[[vgpu]]\nname = 'a'\n"}),
                            Encoded(AnsweredMessage{true, {"uid:7", "id", 5, "made"}}),
                            Encoded(ToldMessage{40}),
                            Encoded(SomeAnswered()),
                            Text("[[vgpu]]\nname = \"train\"\ngpu = 1\nrequest = 0.7\nlimit = 0.9\npriority = \"protected\"\n"
                                 "owners = [\"uid:1000\"]\n[[vgpu]]\nname = 'b'\n"),
                            Text("2\nclient1 0.3 1.0 1073741824\nclient2 0.5 0.75 0\n"),
                            Text("1\nclient1 0.3 1.0 50 1073741824\n")};
  static_assert(std::size(messages) == std::size(kCheckers));
  return SeedsOf(messages);
}

}  // namespace tessera::fuzz
